"""Several ranks save and load together, others load what they saved, and when one fails or dies all are told."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_programs import start

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import StoreConfig
from torchbucket.dcp import checkpoints, latest
from torchbucket.store import open_store

PROGRAM = Path(__file__).with_name("rank_program.py")
IMPORTS = ("torch.distributed.tensor", "torchbucket.dcp.writer", "torchbucket.dcp.reader")
_numbers = itertools.count()


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], opaque_etags=True, log_requests=10_000) as running:
        yield running


@pytest.fixture
def ranks(testbed: RunningTestbed, tmp_path: Path) -> Any:
    """Has so many ranks do something; returns what each has found, or the number of the signal that killed it."""

    def act(world_size: int, action: str, uri: str) -> list[Any]:
        rendezvous = tmp_path / f"rendezvous-{next(_numbers)}"
        running = [
            start(PROGRAM, rank, world_size, rendezvous, action, uri, testbed.s3_endpoint, imports=IMPORTS)
            for rank in range(world_size)
        ]
        found: list[Any] = []
        for one in running:
            ended = one.wait()
            assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
            found.append(signal.SIGKILL if ended.returncode else json.loads(ended.stdout.splitlines()[-1]))
        return found

    return act


@pytest.fixture
def config(testbed: RunningTestbed) -> StoreConfig:
    return StoreConfig(endpoint=testbed.s3_endpoint, anonymous=True)


def read_bytes(testbed: RunningTestbed) -> int:
    """What the testbed has sent of the files of checkpoints since it was last asked."""
    sent = sum(request.bytes_out for request in testbed.requests() if request.key.endswith(".distcp"))
    testbed.reset_counts()
    return sent


@pytest.mark.parametrize(("saved_by", "loaded_by"), [(2, (4, 1)), (4, (3,))])
def test_what_some_ranks_save_others_load(ranks: Any, saved_by: int, loaded_by: tuple[int, ...]) -> None:
    uri = f"s3://data/reshard-{saved_by}/step-1"
    assert ranks(saved_by, "save", uri) == [None] * saved_by
    for world_size in loaded_by:
        assert ranks(world_size, "load", uri) == [[]] * world_size


@pytest.mark.parametrize(("saved_by", "loaded_by"), [(2, 4), (4, 3)])
def test_other_ranks_read_little_more_than_they_want(
    ranks: Any, testbed: RunningTestbed, saved_by: int, loaded_by: int
) -> None:
    uri = f"s3://data/large-{saved_by}/step-1"
    tensor_bytes = 4 << 19
    ranks(saved_by, "save_large", uri)
    read_bytes(testbed)
    assert ranks(loaded_by, "load_large 10", uri) == [[]] * loaded_by
    assert 10 * tensor_bytes <= read_bytes(testbed) < 1.1 * 10 * tensor_bytes
    assert ranks(loaded_by, "load_large 1", uri) == [[]] * loaded_by
    assert tensor_bytes <= read_bytes(testbed) < 1.05 * tensor_bytes


@pytest.mark.parametrize("saved", ["save_in", "save_by_saver_in"])
@pytest.mark.parametrize("where", ["thread", "process"])
def test_a_save_in_the_background_is_of_the_state_at_the_call(ranks: Any, saved: str, where: str) -> None:
    assert ranks(2, f"{saved}_{where}", f"s3://data/{saved}-{where}/step-1") == [[], []]


@pytest.mark.parametrize("failing", [0, 1])
def test_every_rank_hears_of_a_save_that_failed_in_the_background(
    ranks: Any, config: StoreConfig, failing: int
) -> None:
    uri = f"s3://data/async-fails-{failing}/step-1"
    assert ranks(2, f"save_by_saver_where_one_fails {failing}", uri) == [["no room"] * 3] * 2
    assert latest(uri.rpartition("/")[0], config=config) is None
    assert list(open_store("s3://data", config).list_uploads()) == []


@pytest.mark.nightly  # that memory is used again, test_staging.py looks at on each commit
def test_twenty_saves_in_the_background_take_the_memory_of_one(ranks: Any) -> None:
    grown = ranks(2, "grown_by_saves 20", "s3://data/grown/step")
    for of_rank in grown:
        assert max(of_rank) < 16 * (4 << 20), "of one copy, the first save's"


def test_replicas_are_read_once(ranks: Any, testbed: RunningTestbed) -> None:
    uri = "s3://data/once/step-1"
    ranks(2, "save", uri)
    read_bytes(testbed)
    assert ranks(3, "load", uri) == [[], [], []]
    by_all = read_bytes(testbed)
    assert ranks(3, "load_once", uri) == [[], [], []]
    once = read_bytes(testbed)
    replicated = 2 * 4 * 250_000
    assert by_all > 3 * replicated
    assert replicated < once < 1.02 * replicated
    failed = ranks(3, "load_once_by_one_that_fails", uri)
    assert failed[0]["1"] == "OSError: no room"
    assert failed[0]["0"] == "CheckpointError: rank 1 could not read what it was to read for all: OSError: no room"
    assert failed == [failed[0]] * 3


def test_metadata_is_read_once(ranks: Any, testbed: RunningTestbed) -> None:
    uri = "s3://data/metadata-once/step-1"
    ranks(2, "save", uri)

    saved = len(testbed.requests())
    assert ranks(4, "load_metadata_once", uri) == [[]] * 4
    assert sum(request.key.endswith("/.metadata") for request in testbed.requests()[saved:]) == 1


def test_a_rank_that_does_not_get_as_far_as_the_others_is_not_waited_for(ranks: Any, config: StoreConfig) -> None:
    uri = "s3://data/left-behind/step-1"
    ranks(2, "save", uri)
    store = open_store("s3://data", config)
    for rank in range(2):
        store.copy("left-behind/step-1/.metadata", f"left-behind/step-1/__{rank}.metadata")
    told = list(zip(*ranks(2, "told_of_failures", uri), strict=True))
    interrupted, unpickled, unread_by_first, unread_by_second = told
    assert interrupted == ("CheckpointError: rank 1 was to count: KeyboardInterrupt: ", "KeyboardInterrupt: ")
    assert "pickle" in unpickled[0]
    assert unpickled[1].startswith("CheckpointError: rank 0 was to tell: ")
    assert "rank 0 could not read the metadata" in unread_by_first[1]
    assert unread_by_first[0] == unread_by_first[1]
    assert "metadata read failed: no room" in unread_by_second[0]
    assert unread_by_second[0] == unread_by_second[1]


def test_a_save_that_one_rank_could_not_begin_is_begun_by_none(ranks: Any) -> None:
    """Else the next save's part of that rank would be taken for its part of this one."""
    uri = "s3://data/uncopied/step-1"
    found = ranks(2, "save_where_one_cannot_copy", uri)
    assert "its memory was given back" in found[1][0]
    assert found[1][0].endswith("OSError: no answer")
    assert found[0][0].endswith("CheckpointError: rank 1 could not begin to save: OSError: no answer")
    assert found[0][0].startswith("CheckpointError: rank 1 could not begin to save: CheckpointError: ")
    assert [of_rank[1:] for of_rank in found] == [[], []]


@pytest.mark.parametrize("failing", [0, 1])
def test_one_rank_s_failure_is_every_rank_s(ranks: Any, config: StoreConfig, failing: int) -> None:
    run = f"s3://data/fail-{failing}"
    assert ranks(2, "save", f"{run}/step-1") == [None, None]
    told = {str(failing): "OSError: no room"}
    assert ranks(2, f"save_while_one_fails {failing}", f"{run}/step-2") == [told, told]
    assert latest(run, config=config) == f"{run}/step-1"
    assert [found.is_complete for found in checkpoints(run, config=config)] == [True, False]
    assert list(open_store("s3://data", config).list_uploads()) == []


@pytest.mark.parametrize("dying", [0, 1])
def test_when_a_rank_dies_the_others_end_and_there_is_no_checkpoint(
    ranks: Any, config: StoreConfig, dying: int
) -> None:
    run = f"s3://data/kill-{dying}"
    assert ranks(2, "save", f"{run}/step-1") == [None, None]
    found = ranks(2, f"save_while_one_dies {dying}", f"{run}/step-2")
    assert found[dying] == signal.SIGKILL
    assert isinstance(found[1 - dying], str | dict)
    assert latest(run, config=config) == f"{run}/step-1"
    assert ranks(2, "load", f"{run}/step-1") == [[], []]


def test_others_go_on_with_the_data_where_some_have_stopped(ranks: Any, testbed: RunningTestbed) -> None:
    names = [f"train/{number:03}" for number in range(40)]
    testbed.put_objects("data", [(name, 10) for name in names])
    uri = "s3://data/stream/step-1"
    seen = ranks(2, "read_and_save 3", uri)
    assert [len(of_rank) for of_rank in seen] == [3, 6]
    rest = ranks(3, "resume_and_read", uri)
    assert all(rest)
    assert sorted(itertools.chain(*seen, *rest)) == names
    told = ranks(2, "save_where_one_cannot_tell", "s3://data/stream/step-2")
    assert told == [
        "CheckpointError: rank 1 cannot tell how far its data set was read: OSError: no room",
        "OSError: no room",
    ]
