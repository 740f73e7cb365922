"""safetensors over the network: what breaks once is mended, what stays broken is a typed error, nothing is mixed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import safetensors.torch
import torch

from bucketbench.cluster.ports import held_port
from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import CheckpointError, ChecksumError, RetryConfig, StoreConfig, StoreError, TransportError, open_store
from torchbucket.inspection import inspect_checkpoint
from torchbucket.safetensors import load_file, safe_open, save_file, save_sharded, stream

MIB = 1 << 20
_numbers = itertools.count()


@dataclass(frozen=True)
class Place:
    """One provider, and an area of its own in the bucket."""

    testbed: RunningTestbed
    config: StoreConfig
    uri: str

    def faults(self, **rule: object) -> None:
        self.testbed.set_faults([{"bucket": "data", **rule}])


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"]) as running:
        yield running


@pytest.fixture(params=["s3", "gs"])
def place(request: pytest.FixtureRequest, testbed: RunningTestbed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    config = StoreConfig(
        endpoint=testbed.s3_endpoint if request.param == "s3" else testbed.gcs_endpoint,
        part_size_bytes=5 * MIB,
        stall_timeout_s=1,
        hedge_share=0.0,
        retry=RetryConfig(initial_s=0.001, maximum_s=0.05, max_attempts=4),
    )
    yield Place(testbed, config, f"{request.param}://data/area-{next(_numbers)}")
    testbed.set_faults([])


def tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    """12 MiB in 24 tensors of different sizes, so that several requests are under way."""
    random_ = random.Random(seed)
    sizes = [MIB // 2 + random_.choice([-4096, 0, 4096]) for _ in range(24)]
    generator = torch.Generator().manual_seed(seed)
    return {
        f"layer.{number}": torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator)
        for number, size in enumerate(sizes)
    }


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


ONCE = [
    {"kind": "error", "status": 503, "times": 3},
    {"kind": "reset", "after_bytes": 40_000, "times": 2},
    {"kind": "truncate", "after_bytes": 50_000, "times": 2},
    {"kind": "corrupt", "after": 1, "times": 1},
]


def test_files_are_the_library_s(place):
    saved = tensors()
    info = save_file(saved, f"{place.uri}/m.safetensors", {"format": "pt"}, config=place.config)
    data = bytes(open_store(f"{place.uri.partition('://')[0]}://data", place.config).read(info.key).data)
    assert data == safetensors.torch.save(saved, {"format": "pt"})


@pytest.mark.parametrize("fault", ONCE, ids=lambda fault: str(fault["kind"]))
def test_what_breaks_once_is_mended(place, fault):
    saved = tensors()
    save_file(saved, f"{place.uri}/m", config=place.config)
    place.faults(**fault, operations=["get_object", "get_object_range"])
    assert same(load_file(f"{place.uri}/m", config=place.config), saved)


@pytest.mark.parametrize("fault", ONCE[:3], ids=lambda fault: str(fault["kind"]))
def test_a_stream_and_a_handle_mend_it_too(place, fault):
    saved = tensors()
    save_sharded(saved, f"{place.uri}/dir", max_shard_bytes=4 * MIB, config=place.config)
    place.faults(**fault, operations=["get_object", "get_object_range"])
    kept = list(stream(f"{place.uri}/dir", budget_bytes=2 * MIB, config=place.config))
    assert same(dict(kept), saved)  # as they were when the iterator ended: nothing was written over them
    place.faults(**fault, operations=["get_object", "get_object_range"])
    opened = safe_open(f"{place.uri}/dir", config=place.config)
    assert same(opened.get_tensors(), saved)
    assert torch.equal(opened.get_slice("layer.3")[100:9000:3], saved["layer.3"][100:9000:3])


def test_what_stays_broken_is_a_typed_error(place):
    save_file(tensors(), f"{place.uri}/m", config=place.config)
    opened = safe_open(f"{place.uri}/m", config=place.config)
    arriving = stream(f"{place.uri}/m", budget_bytes=MIB, config=place.config)
    place.faults(kind="error", status=403, operations=["get_object", "get_object_range"])
    for call in (
        lambda: load_file(f"{place.uri}/m", config=place.config),
        lambda: opened.get_tensor("layer.1"),
        lambda: opened.get_slice("layer.1")[:9],
        lambda: list(arriving),
        lambda: inspect_checkpoint(f"{place.uri}/m", place.config),
    ):
        with pytest.raises(StoreError):
            call()


def test_a_save_that_fails_publishes_nothing(place):
    place.faults(kind="error", status=403, methods=["PUT", "POST"])
    with pytest.raises(StoreError):
        save_file(tensors(), f"{place.uri}/m", config=place.config)
    with pytest.raises(StoreError):
        save_sharded(tensors(), f"{place.uri}/dir", max_shard_bytes=4 * MIB, config=place.config)
    place.testbed.set_faults([])
    assert place.testbed.open_uploads() == []
    scheme, _, area = place.uri.partition("://data/")
    assert list(open_store(f"{scheme}://data", place.config).list(f"{area}/")) == []


def test_a_header_that_is_damaged_on_the_way_gives_no_wrong_tensor(place):
    """It is the one part that is read before the object's checksum can tell."""
    saved = {name: tensor[:10_000] for name, tensor in tensors().items()}
    save_file(saved, f"{place.uri}/m", config=place.config)
    for after_bytes in (0, 3, 8, 11, 25, 40, 60, 75, 90, 500):
        place.faults(kind="corrupt", after_bytes=after_bytes, times=1, operations=["get_object", "get_object_range"])
        with pytest.raises((CheckpointError, ChecksumError)):
            load_file(f"{place.uri}/m", config=place.config)
    assert same(load_file(f"{place.uri}/m", config=place.config), saved)


def test_an_endpoint_that_nobody_serves_is_named_with_the_cause(place):
    with held_port("127.0.0.1") as port:
        endpoint = f"http://127.0.0.1:{port}"
        config = replace(place.config, endpoint=endpoint, retry=RetryConfig(initial_s=0.001, max_attempts=2))
        for call in (load_file, safe_open, stream, inspect_checkpoint):
            with pytest.raises(TransportError, match=r"(?i)m: .*connect"):
                call(f"{place.uri}/m", config=config)


def test_one_tensor_of_a_file_takes_two_requests(place):
    save_file(tensors(), f"{place.uri}/m", config=place.config)
    place.testbed.reset_counts()
    with safe_open(f"{place.uri}/m", config=place.config) as opened:
        opened.get_tensor("layer.5")
    counts = place.testbed.counts()
    assert sum(count for name, count in counts["requests"].items() if name.startswith("get_object")) == 2
    assert counts["bytes_out"] < 700_000
