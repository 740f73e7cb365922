"""Several ranks save in the safetensors layout, consolidate together, and others load either; when one fails all are
told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from rank_runs import run_ranks

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import StoreConfig
from torchbucket.dcp import BucketHuggingFaceWriter, is_complete, verify
from torchbucket.safetensors import load_file
from torchbucket.store import open_store

PROGRAM = Path(__file__).with_name("safetensors_rank_program.py")
INDEX = "model.safetensors.index.json"
LARGE_BYTES = 22 << 20


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], log_requests=10_000) as running:
        yield running


@pytest.fixture
def ranks(testbed: RunningTestbed, tmp_path: Path) -> Any:
    """Has so many ranks do something; returns what each has found."""

    def act(world_size: int, action: str, uri: str) -> list[Any]:
        endpoint = endpoint_of(testbed, uri)
        (found,) = run_ranks(PROGRAM, world_size, ((action, uri),), directory=tmp_path, endpoint=endpoint)
        return found

    return act


def endpoint_of(testbed: RunningTestbed, uri: str) -> str:
    return testbed.s3_endpoint if uri.startswith("s3") else testbed.gcs_endpoint


def config_of(testbed: RunningTestbed, uri: str) -> StoreConfig:
    return StoreConfig(endpoint=endpoint_of(testbed, uri), anonymous=True)


def heads_read(testbed: RunningTestbed) -> int:
    """How many requests have asked for the beginning of a file, where its header is."""
    return sum(
        request.method == "GET" and request.key.endswith(".safetensors") and request.range_start == 0
        for request in testbed.requests()
    )


@pytest.mark.parametrize("scheme", ["s3", pytest.param("gs", marks=pytest.mark.nightly)])
def test_what_two_ranks_save_is_consolidated_and_loaded_by_three(
    ranks: Any, testbed: RunningTestbed, scheme: str, pytestconfig: pytest.Config
) -> None:
    run = f"{scheme}://data/{scheme}-run"
    config = config_of(testbed, run)
    assert ranks(2, "save_consolidated", run) == [None] * 2
    before = heads_read(testbed)
    assert ranks(3, "load", f"{run}/sharded") == [[]] * 3
    by_each = heads_read(testbed) - before
    assert ranks(3, "load_metadata_once", f"{run}/sharded") == [[]] * 3
    assert heads_read(testbed) - before == by_each + by_each // 3
    testbed.reset_counts()
    assert ranks(2, "consolidate", f"{run}/sharded") == [None] * 2
    moved = sum(request.bytes_out for request in testbed.requests() if request.key.endswith(".safetensors"))
    # S3 copies the parts of the large tensor but for the 5 MiB of an upload's first part; the rest is some 2 MB.
    assert moved < LARGE_BYTES / 2 if scheme == "s3" else LARGE_BYTES < moved < 1.25 * LARGE_BYTES
    assert [verify(uri, config=config) for uri in (run, f"{run}/sharded", f"{run}/whole")] == [[], [], []]
    store = open_store(f"{scheme}://data", config)
    loaded = load_file(run, config=config)
    assert loaded["large"].nbytes == LARGE_BYTES
    for number in (1, 2):
        content = bytes(store.read(f"{scheme}-run/whole/model-0000{number}-of-00002.safetensors").data)
        for name, tensor in safetensors.torch.load(content).items():
            assert tensor.equal(loaded.pop(name))
    assert not loaded
    assert list(store.list_uploads()) == []
    if pytestconfig.getoption("--nightly"):
        assert ranks(3, "load", f"{run}/whole") == [[]] * 3
        assert ranks(2, "load_once", run) == [[]] * 2


@pytest.mark.filterwarnings("ignore:torch.distributed is")
@pytest.mark.parametrize("failing", [pytest.param(0, marks=pytest.mark.nightly), 1])
def test_one_rank_s_failure_is_every_rank_s(ranks: Any, testbed: RunningTestbed, failing: int) -> None:
    run = f"s3://data/fail-{failing}"
    config = config_of(testbed, run)
    told = {str(failing): "OSError: no room"}
    assert ranks(2, f"save_while_one_fails {failing}", f"{run}/step-1") == [told, told]
    assert not is_complete(f"{run}/step-1", config=config)
    assert not is_complete(f"{run}/step-1/sharded", config=config)
    state = {"x": torch.ones(5), "y": torch.ones(3)}
    writer = BucketHuggingFaceWriter(f"{run}/sharded", {"x": 1, "y": 2}, save_distributed=True, config=config)
    dcp.save(state, storage_writer=writer, no_dist=True)
    found = ranks(2, f"consolidate_while_one_fails {failing}", f"{run}/sharded")
    assert found[failing] == "OSError: no room"
    assert found[1 - failing] == f"CheckpointError: rank {failing} could not consolidate its files: OSError: no room"
    assert not is_complete(f"{run}/whole", config=config)
    store = open_store("s3://data", config)
    assert not [info for info in store.list(f"fail-{failing}/") if info.key.endswith(INDEX)]
    assert list(store.list_uploads()) == []
