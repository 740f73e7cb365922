"""Loaders whose workers read ahead: every sampler, loader and way through an epoch gives the samples it always gave."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, random_split
from torchdata.stateful_dataloader import StatefulDataLoader

from torchbucket import MapDataset, ReadAheadBatchSampler, ShardedSampler
from torchbucket.store import open_store

COUNT = 50


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> MapDataset[int]:
    root = f"file://{tmp_path_factory.mktemp('bucket')}"
    store = open_store(root)
    for number in range(COUNT):
        store.write(f"{number:03}", b"%d" % number)
    return MapDataset.from_prefix(f"{root}/", transform=lambda reader: int(reader.read()))


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def epochs(dataset, kind, count=2, **options):
    collate = None if options.get("batch_size", 1) is None else list
    loader = kind(dataset, collate_fn=collate, timeout=60 if options["num_workers"] else 0, **options)
    return [list(loader) for _ in range(count)]


@pytest.mark.parametrize("kind", [DataLoader, StatefulDataLoader])
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 7},
        {"batch_size": 7, "drop_last": True, "prefetch_factor": 4},
        {"batch_size": None},
        {"batch_sampler": lambda: BatchSampler(RandomSampler(range(COUNT), generator=seeded()), 4, drop_last=False)},
        {"batch_size": 5, "sampler": lambda: DistributedSampler(range(COUNT), num_replicas=3, rank=1, seed=3)},
        {
            "batch_size": 3,
            "sampler": lambda: RandomSampler(range(COUNT), generator=seeded()),
            "persistent_workers": True,
        },
    ],
    ids=["in order", "drop last", "single samples", "batch sampler", "distributed", "shuffled"],
)
def test_workers_give_what_the_process_itself_gives(dataset, kind, options):
    def made(**others):
        own = {name: value() if callable(value) else value for name, value in options.items()}
        return own | others

    alone = made(num_workers=0)
    for name in ("persistent_workers", "prefetch_factor"):
        alone.pop(name, None)
    assert epochs(dataset, kind, **made(num_workers=2, multiprocessing_context="fork")) == epochs(
        dataset, kind, **alone
    )


SAMPLERS = {
    "in order": lambda: range(COUNT),
    "shuffled": lambda: RandomSampler(range(COUNT), generator=seeded()),
    "distributed": lambda: DistributedSampler(range(COUNT), num_replicas=3, rank=1, seed=3),
    "sharded": lambda: ShardedSampler(range(COUNT), seed=3, rank=1, world_size=2),
}


WORKERS = {
    "no workers": {"num_workers": 0},
    "fork": {"num_workers": 2, "multiprocessing_context": "fork"},
    "forkserver": {
        "num_workers": 2,
        "multiprocessing_context": "forkserver",
        "persistent_workers": True,
        "prefetch_factor": 1,
    },
}


def _loads() -> list[object]:
    """Every sampler and kind of loader; by forkserver, which is sent the data set, one on each commit."""
    return [
        pytest.param(
            sampler,
            kind,
            workers,
            marks=pytest.mark.nightly
            if workers == "forkserver" and (sampler, kind) != ("shuffled", DataLoader)
            else (),
            id=f"{sampler}-{kind.__name__}-{workers}",
        )
        for sampler in SAMPLERS
        for kind in (DataLoader, StatefulDataLoader)
        for workers in WORKERS
    ]


@pytest.mark.parametrize(("sampler", "kind", "workers"), _loads())
def test_a_read_ahead_batch_sampler_changes_no_batch(dataset, kind, sampler, workers):
    sampler, workers = SAMPLERS[sampler], WORKERS[workers]
    dataset = MapDataset.from_prefix(dataset_prefix(dataset), transform=number)
    plain = epochs(dataset, DataLoader, batch_sampler=BatchSampler(sampler(), 4, drop_last=False), num_workers=0)
    assert epochs(dataset, kind, batch_sampler=ReadAheadBatchSampler(sampler(), 4), **workers) == plain


def test_a_part_of_the_data_set_and_workers_out_of_order(dataset):
    part, _ = random_split(dataset, [30, 20], generator=seeded())
    wanted = sorted(part[place] for place in range(30))
    options = {"batch_size": 4, "shuffle": True, "num_workers": 2, "multiprocessing_context": "fork"}
    for epoch in epochs(part, DataLoader, in_order=False, **options):
        assert sorted(sample for batch in epoch for sample in batch) == wanted


def test_a_state_resumes_at_the_exact_batch(dataset):
    def loader():
        return StatefulDataLoader(
            dataset,
            batch_size=4,
            sampler=RandomSampler(range(COUNT), generator=seeded()),
            num_workers=2,
            multiprocessing_context="fork",
            collate_fn=list,
            timeout=60,
        )

    whole = list(loader())
    first = loader()
    batches = iter(first)
    begun = [next(batches) for _ in range(5)]
    state = first.state_dict()
    del batches, first
    second = loader()
    second.load_state_dict(state)
    assert begun + list(second) == whole


@pytest.mark.parametrize("workers", [0, 2])
def test_a_read_ahead_batch_sampler_resumes_at_the_exact_batch_of_a_later_epoch(dataset, workers):
    def loader():
        batches = ReadAheadBatchSampler(ShardedSampler(dataset, seed=3), 5)
        return StatefulDataLoader(
            dataset,
            batch_sampler=batches,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
            collate_fn=list,
        )

    first = loader()
    whole = [list(first) for _ in range(3)]
    for taken in (0, 3, 9):
        second = loader()
        list(second)
        batches = iter(second)
        begun = [next(batches) for _ in range(taken)]
        state = second.state_dict()
        del batches, second
        third = loader()
        third.load_state_dict(state)
        assert [begun + list(third), list(third)] == whole[1:], taken


def test_an_epoch_left_early_spoils_none_that_follows(dataset):
    loader = DataLoader(
        dataset,
        batch_size=3,
        num_workers=2,
        multiprocessing_context="fork",
        collate_fn=list,
        persistent_workers=True,
        prefetch_factor=4,
        timeout=60,
    )
    expected = [list(range(start, min(start + 3, COUNT))) for start in range(0, COUNT, 3)]
    for left_after in (1, 4, 0):
        batches = iter(loader)
        assert [next(batches) for _ in range(left_after)] == expected[:left_after]
    assert list(loader) == expected


class Told(MapDataset):
    """Gives each sample with 1 where its worker knows which batches come next, else 0."""

    def __getitems__(self, indices):
        samples = super().__getitems__(indices)
        return [(sample, int(self._ahead.takes(indices, indices))) for sample in samples]


def number(reader) -> int:
    return int(reader.read())


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", [DataLoader, StatefulDataLoader])
def test_the_workers_of_every_loader_know_their_next_batches(dataset, kind, method):
    told = Told.from_prefix(dataset_prefix(dataset), transform=number)
    loader = kind(told, batch_size=5, num_workers=2, multiprocessing_context=method, timeout=60, shuffle=True)
    batches = list(loader)
    assert sorted(int(sample) for samples, _ in batches for sample in samples) == list(range(COUNT))
    assert all(known.all() for _, known in batches)


def test_workers_of_the_loaders_that_lightning_makes_know_their_next_batches(dataset):
    lightning = pytest.importorskip("lightning")
    seen = []

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch, _):
            seen.extend(zip(*(column.tolist() for column in batch), strict=True))
            return self.layer(batch[0].float()[:, None]).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    told = Told.from_prefix(dataset_prefix(dataset), transform=number)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    lightning.Trainer(max_epochs=1, accelerator="cpu", devices=1, **quiet).fit(
        Model(), DataLoader(told, batch_size=5, shuffle=True, num_workers=2, timeout=60)
    )
    assert sorted(seen) == [(sample, 1) for sample in range(COUNT)]


def dataset_prefix(dataset) -> str:
    return dataset._source.uri(0).rpartition("/")[0] + "/"
