"""One rank of a job that reads through a training framework's own loaders, as a user's script would.

Usage: python framework_program.py FRAMEWORK URI MEETING RANK [WAY…]

Prints, for each way of reading that the framework has, or for those named, the samples that this rank got in each
epoch, or the error.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from torchbucket import (
    ConfigError,
    IterableDataset,
    MapDataset,
    PrefixStream,
    ReadAheadBatchSampler,
    ShardedSampler,
    TarDataset,
)

BATCH = 4
WORLD = 2
COUNT = 48  # of the objects below whole/, which every batch and rank divides
Epochs = list[list[int]]
Way = tuple[str, Callable[[], Epochs]]


def number_of(reader) -> torch.Tensor:
    return torch.tensor(int(reader.key.rpartition("/")[2]))


def number_in_shard(sample) -> torch.Tensor:
    return torch.tensor(int(sample.key))


def stream(uri: str, **settings) -> IterableDataset[torch.Tensor]:
    return IterableDataset.from_prefix(f"{uri}/objects/", transform=number_of, shuffle=True, **settings)


def shards(uri: str) -> TarDataset[torch.Tensor]:
    return TarDataset.from_prefix(f"{uri}/shards/", transform=number_in_shard, shuffle=True, shuffle_buffer=5)


def streams(uri: str) -> dict[str, Callable[[int], DataLoader]]:
    """Loaders by what they read, made of a number of workers."""

    def loader(dataset: Any, workers: int, **settings) -> DataLoader:
        return DataLoader(dataset, batch_size=BATCH, num_workers=workers, **settings)

    def by_index(workers: int) -> DataLoader:
        dataset = MapDataset.from_prefix(f"{uri}/objects/", transform=number_of)
        return loader(dataset, workers, sampler=ShardedSampler(dataset))

    def read_ahead(workers: int) -> DataLoader:
        dataset = MapDataset.from_prefix(f"{uri}/objects/", transform=number_of)
        batches = ReadAheadBatchSampler(ShardedSampler(dataset), BATCH)
        return DataLoader(dataset, batch_sampler=batches, num_workers=workers)

    return {
        "stream": lambda workers: loader(stream(uri), workers),
        "listed": lambda workers: loader(PrefixStream.from_prefix(f"{uri}/objects/", transform=number_of), workers),
        "tar": lambda workers: loader(shards(uri), workers),
        "map": by_index,
        "read ahead": read_ahead,
        "spawned stream": lambda workers: loader(
            stream(uri), workers, multiprocessing_context="spawn" if workers else None
        ),
        "given": lambda workers: loader(stream(uri, rank=int(os.environ["RANK"]), world_size=WORLD), workers),
    }


def two_epochs(loader: Any) -> Epochs:
    return [[int(number) for batch in loader for number in batch] for _ in range(2)]


def with_accelerate(uri: str) -> Iterator[Way]:
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    def read(make: Callable[[int], DataLoader], workers: int, **settings) -> Epochs:
        accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**settings))
        assert accelerator.num_processes == WORLD
        return two_epochs(accelerator.prepare(make(workers)))

    undispatched = {"dispatch_batches": False}
    made = streams(uri)
    for kind, workers in itertools.product(("stream", "listed", "tar", "map", "read ahead"), (0, 2)):
        yield f"default {kind} {workers}", lambda make=made[kind], workers=workers: read(make, workers)
        yield (
            f"undispatched {kind} {workers}",
            lambda make=made[kind], workers=workers: read(make, workers, **undispatched),
        )
    for workers in (0, 2):
        yield f"split stream {workers}", lambda workers=workers: read(made["stream"], workers, split_batches=True)
        yield (
            f"split undispatched stream {workers}",
            lambda workers=workers: read(made["stream"], workers, split_batches=True, **undispatched),
        )
    yield "default stream 3", lambda: read(made["stream"], 3)
    yield "default spawned stream 2", lambda: read(made["spawned stream"], 2)
    yield "undispatched spawned stream 2", lambda: read(made["spawned stream"], 2, **undispatched)
    yield "default given 0", lambda: read(made["given"], 0)
    yield "undispatched given 0", lambda: read(made["given"], 0, **undispatched)
    yield "uneven map 0", lambda: read(made["map"], 0, even_batches=False)
    yield "dispatched map 2", lambda: read(made["map"], 2, dispatch_batches=True)
    yield "stateful stream 2", lambda: read(made["stream"], 2, use_stateful_dataloader=True)


def with_trainer(uri: str) -> Iterator[Way]:
    """Samples as the model is given them, in so many steps as an epoch has with the trainer's padding."""
    import transformers

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen: list[int] = []

        def forward(self, number: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
            self.seen += number.tolist()
            return {"loss": self.layer(number.float()[:, None]).mean()}

    def read(dataset: Any, workers: int, **settings) -> Epochs:
        model = Model()
        arguments = transformers.TrainingArguments(
            output_dir=os.environ["OUTPUT_DIRECTORY"],
            use_cpu=True,
            per_device_train_batch_size=BATCH,
            dataloader_num_workers=workers,
            max_steps=COUNT // (BATCH * WORLD),
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
            **settings,
        )
        transformers.Trainer(model, arguments, train_dataset=dataset).train()
        return [model.seen]

    def named(reader) -> dict[str, torch.Tensor]:
        return {"number": number_of(reader)}

    whole = f"{uri}/whole/"
    for workers in (0, 2):
        yield (
            f"default {workers}",
            lambda workers=workers: read(IterableDataset.from_prefix(whole, transform=named), workers),
        )
        yield (
            f"undispatched {workers}",
            lambda workers=workers: read(
                IterableDataset.from_prefix(whole, transform=named),
                workers,
                accelerator_config={"dispatch_batches": False},
            ),
        )
        yield f"map {workers}", lambda workers=workers: read(MapDataset.from_prefix(whole, transform=named), workers)


def with_torch(uri: str) -> Iterator[Way]:
    """torch's own loader and torchdata's, as torchrun starts them, and what is built of data pipes and nodes."""
    import torchdata.nodes
    from torch.utils.data.datapipes.iter import IterableWrapper
    from torchdata.stateful_dataloader import StatefulDataLoader

    for (kind, make), workers in itertools.product(streams(uri).items(), (0, 2)):
        yield f"plain {kind} {workers}", lambda make=make, workers=workers: two_epochs(make(workers))

    def piped(workers: int, *, filtered: bool, **settings) -> Epochs:
        pipe = IterableWrapper(stream(uri, **settings))
        pipe = pipe.sharding_filter() if filtered else pipe
        return two_epochs(DataLoader(pipe, batch_size=BATCH, num_workers=workers))

    def noded() -> Epochs:
        node = torchdata.nodes.Batcher(torchdata.nodes.IterableWrapper(stream(uri)), BATCH, drop_last=False)
        return two_epochs(torchdata.nodes.Loader(node))

    yield "nodes", noded
    for workers in (0, 2):
        yield (
            f"stateful {workers}",
            lambda workers=workers: two_epochs(StatefulDataLoader(stream(uri), batch_size=BATCH, num_workers=workers)),
        )
        yield f"piped {workers}", lambda workers=workers: piped(workers, filtered=False)
        yield f"filtered {workers}", lambda workers=workers: piped(workers, filtered=True)
        yield f"filtered unshared {workers}", lambda workers=workers: piped(workers, filtered=True, sharding=False)


def with_fabric(uri: str) -> Iterator[Way]:
    from lightning.fabric import Fabric
    from lightning.fabric.strategies import DDPStrategy

    fabric = Fabric(accelerator="cpu", devices=WORLD, strategy=DDPStrategy(process_group_backend="gloo"))
    fabric.launch()
    assert fabric.world_size == WORLD
    yield (
        "own sampler read ahead 2",
        lambda: two_epochs(fabric.setup_dataloaders(streams(uri)["read ahead"](2), use_distributed_sampler=False)),
    )
    for (kind, make), workers in itertools.product(streams(uri).items(), (0, 2)):
        yield (
            f"{kind} {workers}",
            lambda make=make, workers=workers: two_epochs(fabric.setup_dataloaders(make(workers))),
        )


FRAMEWORKS = {"accelerate": with_accelerate, "trainer": with_trainer, "torch": with_torch, "fabric": with_fabric}


def main() -> None:
    framework, uri, meeting, rank, *ways = sys.argv[1:]
    os.environ["OUTPUT_DIRECTORY"] = f"{meeting}.output"
    os.environ |= dict.fromkeys(("RANK", "LOCAL_RANK"), rank)
    os.environ |= {name: str(WORLD) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE")}
    # Nothing listens there: the ranks have met before a framework asks.
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9", "GLOO_SOCKET_IFNAME": "lo"}
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=int(rank), world_size=WORLD)
    # The frameworks print, too.
    answers, sys.stdout = sys.stdout, sys.stderr
    found: dict[str, Epochs | str] = {}
    for way, read in FRAMEWORKS[framework](uri):
        if ways and way not in ways:
            continue
        print(way, file=sys.stderr, flush=True)
        try:
            found[way] = read()
        except ConfigError as error:
            found[way] = f"ConfigError: {error}"
    print(json.dumps(found), file=answers)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
