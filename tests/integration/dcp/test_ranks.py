"""Several ranks save and load together, others load what they saved, and when one fails or dies all are told.

To start ranks costs more than most of what they do, so that they do several things after one another, each with an
address of its own.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rank_runs import run_ranks

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import StoreConfig
from torchbucket.dcp import checkpoints, latest
from torchbucket.store import open_store

PROGRAM = Path(__file__).with_name("rank_program.py")
Ranks = Callable[..., list[list[Any]]]


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], opaque_etags=True, log_requests=10_000) as running:
        yield running


@pytest.fixture(scope="module")
def ranks(testbed: RunningTestbed, tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """Has so many ranks do one or several things, each at an address; see `run_ranks`."""
    directory = tmp_path_factory.mktemp("ranks")

    def act(world_size: int, *actions: tuple[str, str]) -> list[list[Any]]:
        return run_ranks(PROGRAM, world_size, actions, directory=directory, endpoint=testbed.s3_endpoint)

    return act


@pytest.fixture(scope="module")
def saved(ranks: Ranks) -> Iterator[str]:
    """The addresses of checkpoints that two ranks have saved, one for each test that takes one."""
    uris = [f"s3://data/saved-{number}/step-1" for number in range(6)]
    assert ranks(2, *(("save", uri) for uri in uris)) == [[None] * 2] * len(uris)
    return iter(uris)


@pytest.fixture
def config(testbed: RunningTestbed) -> StoreConfig:
    return StoreConfig(endpoint=testbed.s3_endpoint, anonymous=True)


def read_bytes(testbed: RunningTestbed, uri: str) -> int:
    """What the testbed has sent of the files of a checkpoint."""
    prefix = uri.removeprefix("s3://data/")
    return sum(
        request.bytes_out
        for request in testbed.requests()
        if request.key.startswith(f"{prefix}/") and request.key.endswith(".distcp")
    )


def test_what_some_ranks_save_others_load(ranks: Ranks, saved: Iterator[str]) -> None:
    """Also more than there were: see below, where three and four load what two have saved."""
    uri = "s3://data/reshard/step-1"
    assert ranks(3, ("save", uri)) == [[None] * 3]
    assert ranks(2, ("load", uri)) == [[[]] * 2]
    assert ranks(1, ("load", next(saved))) == [[[]]]


def test_other_ranks_read_little_more_than_they_want(ranks: Ranks, testbed: RunningTestbed) -> None:
    tensor_bytes = 4 << 19
    uris = [f"s3://data/large-{number}/step-1" for number in range(4)]
    ranks(2, ("save_large", uris[0]), ("save_large", uris[1]))
    loads = [("load_large 10", uris[0]), ("load_large 1", uris[1])]
    assert ranks(3, *loads, ("save_large", uris[2]), ("save_large", uris[3]))[:2] == [[[]] * 3] * 2
    assert ranks(2, ("load_large 10", uris[2]), ("load_large 1", uris[3])) == [[[]] * 2] * 2
    for ten, one in (uris[:2], uris[2:]):
        assert 10 * tensor_bytes <= read_bytes(testbed, ten) < 1.1 * 10 * tensor_bytes
        assert tensor_bytes <= read_bytes(testbed, one) < 1.05 * tensor_bytes


@pytest.mark.parametrize(
    "ways",
    [
        ["save_in_thread", "save_by_saver_in_thread"],
        ["save_by_saver_in_process"],
        pytest.param(["save_in_process"], marks=pytest.mark.nightly),  # which the saver has PyTorch do, too
    ],
    ids=lambda ways: ways[-1],
)
def test_a_save_in_the_background_is_of_the_state_at_the_call(ranks: Ranks, ways: list[str]) -> None:
    assert ranks(2, *((way, f"s3://data/{way}/step-1") for way in ways)) == [[[], []]] * len(ways)


def test_every_rank_hears_of_a_save_that_failed_in_the_background(ranks: Ranks, config: StoreConfig) -> None:
    runs = [f"s3://data/async-fails-{failing}" for failing in range(2)]
    actions = [(f"save_by_saver_where_one_fails {failing}", f"{run}/step-1") for failing, run in enumerate(runs)]
    assert ranks(2, *actions) == [[["no room"] * 3] * 2] * 2
    assert [latest(run, config=config) for run in runs] == [None, None]
    assert list(open_store("s3://data", config).list_uploads()) == []


@pytest.mark.nightly  # that memory is used again, test_staging.py looks at on each commit
def test_twenty_saves_in_the_background_take_the_memory_of_one(ranks: Ranks) -> None:
    (grown,) = ranks(2, ("grown_by_saves 20", "s3://data/grown/step"))
    for of_rank in grown:
        assert max(of_rank) < 16 * (4 << 20), "of one copy, the first save's"


def test_replicas_are_read_once(ranks: Ranks, testbed: RunningTestbed, saved: Iterator[str]) -> None:
    by_all, once, failing = (next(saved) for _ in range(3))
    loaded, loaded_once, failed = ranks(
        3, ("load", by_all), ("load_once", once), ("load_once_by_one_that_fails", failing)
    )
    assert loaded == loaded_once == [[], [], []]
    replicated = 2 * 4 * 250_000
    assert read_bytes(testbed, by_all) > 3 * replicated
    assert replicated < read_bytes(testbed, once) < 1.02 * replicated
    assert failed[0]["1"] == "OSError: no room"
    assert failed[0]["0"] == "CheckpointError: rank 1 could not read what it was to read for all: OSError: no room"
    assert failed == [failed[0]] * 3


def test_metadata_is_read_once(ranks: Ranks, testbed: RunningTestbed, saved: Iterator[str]) -> None:
    uri = next(saved)
    before = len(testbed.requests())
    assert ranks(4, ("load_metadata_once", uri)) == [[[]] * 4]
    assert sum(request.key.endswith("/.metadata") for request in testbed.requests()[before:]) == 1


def test_a_rank_that_does_not_get_as_far_as_the_others_is_not_waited_for(
    ranks: Ranks, config: StoreConfig, saved: Iterator[str]
) -> None:
    uri = next(saved)
    directory = uri.removeprefix("s3://data/")
    store = open_store("s3://data", config)
    for rank in range(2):
        store.copy(f"{directory}/.metadata", f"{directory}/__{rank}.metadata")
    (by_rank,) = ranks(2, ("told_of_failures", uri))
    interrupted, unpickled, unread_by_first, unread_by_second = zip(*by_rank, strict=True)
    assert interrupted == ("CheckpointError: rank 1 was to count: KeyboardInterrupt: ", "KeyboardInterrupt: ")
    assert "pickle" in unpickled[0]
    assert unpickled[1].startswith("CheckpointError: rank 0 was to tell: ")
    assert "rank 0 could not read the metadata" in unread_by_first[1]
    assert unread_by_first[0] == unread_by_first[1]
    assert "metadata read failed: no room" in unread_by_second[0]
    assert unread_by_second[0] == unread_by_second[1]


def test_a_save_that_one_rank_could_not_begin_is_begun_by_none(ranks: Ranks) -> None:
    """Else the next save's part of that rank would be taken for its part of this one."""
    (found,) = ranks(2, ("save_where_one_cannot_copy", "s3://data/uncopied/step-1"))
    assert "its memory was given back" in found[1][0]
    assert found[1][0].endswith("OSError: no answer")
    assert found[0][0].endswith("CheckpointError: rank 1 could not begin to save: OSError: no answer")
    assert found[0][0].startswith("CheckpointError: rank 1 could not begin to save: CheckpointError: ")
    assert [of_rank[1:] for of_rank in found] == [[], []]


def test_one_rank_s_failure_is_every_rank_s(ranks: Ranks, config: StoreConfig) -> None:
    runs = [f"s3://data/fail-{failing}" for failing in range(2)]
    saves = [("save", f"{run}/step-1") for run in runs]
    fails = [(f"save_while_one_fails {failing}", f"{run}/step-2") for failing, run in enumerate(runs)]
    assert ranks(2, *saves, *fails) == [
        [None, None],
        [None, None],
        [{"0": "OSError: no room"}] * 2,
        [{"1": "OSError: no room"}] * 2,
    ]
    for run in runs:
        assert latest(run, config=config) == f"{run}/step-1"
        assert [found.is_complete for found in checkpoints(run, config=config)] == [True, False]
    assert list(open_store("s3://data", config).list_uploads()) == []


@pytest.mark.parametrize("dying", [0, 1])
def test_when_a_rank_dies_the_others_end_and_there_is_no_checkpoint(
    ranks: Ranks, config: StoreConfig, dying: int
) -> None:
    run = f"s3://data/kill-{dying}"
    saved, found = ranks(2, ("save", f"{run}/step-1"), (f"save_while_one_dies {dying}", f"{run}/step-2"))
    assert saved == [None, None]
    assert found[dying] == signal.SIGKILL
    assert isinstance(found[1 - dying], str | dict)
    assert latest(run, config=config) == f"{run}/step-1"
    assert ranks(1, ("load", f"{run}/step-1")) == [[[]]]


def test_others_go_on_with_the_data_where_some_have_stopped(ranks: Ranks, testbed: RunningTestbed) -> None:
    names = [f"train/{number:03}" for number in range(40)]
    testbed.put_objects("data", [(name, 10) for name in names])
    uri = "s3://data/stream/step-1"
    seen, told = ranks(2, ("read_and_save 3", uri), ("save_where_one_cannot_tell", "s3://data/stream/step-2"))
    assert [len(of_rank) for of_rank in seen] == [3, 6]
    (rest,) = ranks(3, ("resume_and_read", uri))
    assert all(rest)
    assert sorted(itertools.chain(*seen, *rest)) == names
    assert told == [
        "CheckpointError: rank 1 cannot tell how far its data set was read: OSError: no room",
        "OSError: no room",
    ]
