"""Metered data sets and the order of samples, without worker processes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import xxhash

from bucketbench.ranks import Ranks
from bucketbench.records import OperationKind
from bucketbench.scenarios.dataset.job import LoaderSettings
from bucketbench.scenarios.dataset.loading import EpochOrder, JobLoader, start_method_of
from bucketbench.scenarios.dataset.metering import MAIN_PROCESS, MeteredBatch
from bucketbench.scenarios.dataset.rotation import Rotation
from bucketbench.scenarios.dataset.sample_checks import ObjectsCheck
from torchbucket import ReadAheadBatchSampler

CONTENT = {f"{number}.jpg": bytes([number]) * (number + 1) for number in range(10)}
CHECK = ObjectsCheck(
    {"key": key, "size_bytes": len(data), "xxh3_128": xxhash.xxh3_128_hexdigest(data)} for key, data in CONTENT.items()
)
ROTATION = Rotation(len(CONTENT), share=0.25, lot=0)


class Model:
    """Decodes to the size; refuses one content."""

    def __init__(self, refused: bytes | None = None) -> None:
        self.refused = refused

    def decode(self, data: bytes) -> int:
        if data == self.refused:
            raise ValueError("not an image")
        return len(data)

    def collate(self, samples: list[int]) -> list[int]:
        return samples


class Items:
    """A map data set of a user: any object with the two methods."""

    def __init__(self, get: Callable[[int], Any]) -> None:
        self._get = get

    def __len__(self) -> int:
        return len(CONTENT)

    def __getitem__(self, index: int) -> Any:
        return self._get(index)


class Stream:
    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return self._make()


def item(index: int) -> tuple[str, bytes]:
    return list(CONTENT.items())[index]


def settings(**changes: Any) -> LoaderSettings:
    defaults: dict[str, Any] = {
        "num_workers": 0, "batch_size": 4, "prefetch_factor": 2, "start_method": "auto", "persistent_workers": True,
        "pin_memory": False, "shuffle": False,
    }  # fmt: skip
    return LoaderSettings(**{**defaults, **changes})


def load(inner: Any, *, model: Any = None, limit: int | None = None, **changes: Any) -> list[MeteredBatch]:
    loader = JobLoader(
        inner,
        settings=settings(**changes),
        start_method="none",
        content=CHECK,
        rotation=ROTATION,
        model=model or Model(),
        seed=0,
        ranks=Ranks(),
    )
    return list(loader.batches(epoch=0, limit=limit, whole=True))


@pytest.mark.parametrize("inner", [Items(item), Stream(lambda: iter(CONTENT.items()))], ids=["map", "iterable"])
def test_batches_carry_what_arrived(inner: Any) -> None:
    batches = load(inner)
    assert [batch.positions for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [batch.payload for batch in batches] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    kind = OperationKind.NEXT if isinstance(inner, Stream) else OperationKind.FETCH
    fetches = [timing for batch in batches for timing in batch.timings if timing.kind is kind]
    assert [(f.samples, f.content_bytes, f.errors, f.worker) for f in fetches] == [
        (4, 10, 0, MAIN_PROCESS), (4, 26, 0, MAIN_PROCESS), (2, 19, 0, MAIN_PROCESS),
    ]  # fmt: skip
    for fetch, decode in (batch.timings for batch in batches):
        assert fetch.started_s <= fetch.ended_s <= decode.started_s <= decode.ended_s


@pytest.mark.parametrize("inner", [Items(item), Stream(lambda: iter(CONTENT.items()))], ids=["map", "iterable"])
def test_a_limit_ends_a_pass_early(inner: Any) -> None:
    assert sum(len(batch.positions) for batch in load(inner, limit=5)) == 5


@pytest.mark.parametrize(
    "inner", [Items(item), Stream(lambda: itertools.cycle(CONTENT.items()))], ids=["map", "iterable"]
)
def test_ranks_share_a_limit(inner: Any) -> None:
    found = 0
    for rank in range(2):
        loader = JobLoader(
            inner, settings=settings(), start_method="none", content=CHECK, rotation=ROTATION, model=Model(),
            seed=0, ranks=Ranks(rank=rank, world_size=2),
        )  # fmt: skip
        found += sum(len(batch.positions) for batch in loader.batches(epoch=0, limit=6, whole=True))
    assert found == 6


def test_a_clients_own_batch_sampler_gets_the_batches_of_each_pass() -> None:
    given = []

    def batch_sampler(batches: Any) -> Any:
        given.append(batches)
        return ReadAheadBatchSampler(batches)

    loader = JobLoader(
        Items(item), settings=settings(shuffle=True), start_method="none", content=CHECK, rotation=ROTATION,
        model=Model(), seed=0, batch_sampler=batch_sampler, ranks=Ranks(),
    )  # fmt: skip
    for epoch, limit in ((0, None), (1, None), (2, 5)):
        read = [batch.positions for batch in loader.batches(epoch=epoch, limit=limit, whole=True)]
        assert read == [*given[0]]
    assert len(given) == 1


def test_a_failing_sample_costs_itself_only() -> None:
    def get(index: int) -> tuple[str, bytes]:
        if index == 5:
            raise OSError("lost; set StoreConfig(region='eu-west-1')")
        return item(index)

    batches = load(Items(get))
    assert [batch.errors for batch in batches] == [0, 1, 0]
    assert batches[1].positions == [4, 6, 7]
    assert batches[1].notes == ["OSError: lost; set target.region='eu-west-1'"], "in words of the configuration"
    assert batches[1].timings[0].errors == 1


def test_a_batch_fetched_at_once_is_lost_as_a_whole() -> None:
    class Batched(Items):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            if 5 in indices:
                raise OSError("lost")
            return [item(index) for index in indices]

    batches = load(Batched(item))
    assert [(batch.errors, len(batch.positions)) for batch in batches] == [(0, 4), (4, 0), (0, 2)]
    assert batches[1].payload is None


def test_a_stream_that_breaks_keeps_what_it_had_delivered() -> None:
    def broken() -> Iterator[Any]:
        yield from (item(index) for index in range(6))
        raise OSError("broke")

    batches = load(Stream(broken))
    assert [(batch.positions, batch.errors) for batch in batches] == [([0, 1, 2, 3], 0), ([4, 5], 1)]


def test_a_stream_cut_short_is_closed() -> None:
    closed = []

    def stream() -> Iterator[Any]:
        try:
            yield from CONTENT.items()
        finally:
            closed.append(True)

    load(Stream(stream), limit=3)
    assert closed == [True]


@pytest.mark.parametrize("sample", [b"only bytes", ("a", b"b", "c"), None, ("0.jpg", b"wrong")])
def test_what_is_no_sample_is_a_mismatch_and_no_bytes(sample: Any) -> None:
    batches = load(Items(lambda index: sample if index == 0 else item(index)))
    assert (batches[0].mismatched, batches[0].positions) == (1, [1, 2, 3])
    assert batches[0].timings[0].content_bytes == 2 + 3 + 4


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_pass_compares_those_whose_turn_it_is_or_all(*, is_stream: bool) -> None:
    damaged = [(key, data[:-1] + b"!") for key, data in CONTENT.items()]
    inner = Stream(lambda: iter(damaged)) if is_stream else Items(lambda index: damaged[index])
    loader = JobLoader(
        inner, settings=settings(), start_method="none", content=CHECK, rotation=ROTATION, model=Model(),
        seed=0, ranks=Ranks(),
    )  # fmt: skip
    passed = []
    for epoch in range(4):
        batches = list(loader.batches(epoch=epoch, whole=False))
        assert sum(batch.mismatched for batch in batches) == 3
        assert sum(batch.by_size for batch in batches) == 7
        passed.append({position for batch in batches for position in batch.positions})
    assert set.intersection(*passed) == set(), "in four epochs each has had its turn"
    assert sum(batch.mismatched for batch in loader.batches(epoch=4, whole=True)) == len(CONTENT)


def test_what_cannot_be_decoded_did_arrive(capsys: pytest.CaptureFixture[str]) -> None:
    (first, *_) = load(Items(item), model=Model(refused=item(2)[1]))
    fetch, decode = first.timings
    assert (fetch.samples, fetch.errors, decode.samples, decode.errors) == (4, 0, 3, 1)
    assert (first.undecodable, first.errors) == (1, 0)
    assert "not an image" in first.notes[0]
    assert "in decode\n" in capsys.readouterr().err, "the traceback, which goes to benchmark.log"


def test_what_is_no_data_set_is_named() -> None:
    with pytest.raises(TypeError, match="returned a int, expected a torch data set"):
        load(7)


def order(**changes: Any) -> EpochOrder:
    return EpochOrder(**{"samples": 10, "batch_size": 4, "workers": 2, "shuffle": False, "seed": 3, **changes})


def test_sequential_order() -> None:
    assert list(order()) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(order()) == 3


def test_a_short_pass_reaches_every_worker() -> None:
    short = order(samples=100, batch_size=32, workers=4)
    short.begin(epoch=-1, limit=8)
    assert list(short) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_shuffle_has_every_sample_and_depends_on_seed_and_epoch() -> None:
    def flat(seed: int, epoch: int) -> list[int]:
        shuffled = order(shuffle=True, seed=seed)
        shuffled.begin(epoch=epoch, limit=None)
        return [index for batch in shuffled for index in batch]

    assert sorted(flat(3, 0)) == list(range(10))
    assert flat(3, 0) == flat(3, 0)
    assert len({tuple(flat(seed, epoch)) for seed in (3, 4) for epoch in (0, 1)}) == 4


@pytest.mark.parametrize(
    ("asked", "workers", "fork_safe", "expected"),
    [
        ("auto", 2, True, "fork"),
        ("auto", 2, None, "fork"),
        ("auto", 2, False, "forkserver"),
        ("fork", 2, False, "fork"),
        ("spawn", 2, True, "spawn"),
        ("auto", 0, False, "none"),
    ],
)
def test_start_method(asked: str, workers: int, fork_safe: bool | None, expected: str) -> None:
    client = type("Client", (), {} if fork_safe is None else {"fork_safe": fork_safe})()
    assert start_method_of(settings(num_workers=workers, start_method=asked), client) == expected
