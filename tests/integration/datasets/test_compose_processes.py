"""Temporary objects of real processes on the testbed's Cloud Storage: none is left, however a process ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import forked_programs
import pytest
from compose_program import COUNT
from forked_programs import Running

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import StoreConfig, sweep_temporaries
from torchbucket.store import Store, open_store

PROGRAM = Path(__file__).with_name("compose_program.py")


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    # The delay keeps temporary objects on their way while a process is ended.
    with launch_testbed(buckets=["data"], network={"first_byte_s": 0.01}) as running:
        yield running


@pytest.fixture(scope="module")
def config(testbed) -> StoreConfig:
    return StoreConfig(endpoint=testbed.gcs_endpoint, anonymous=True)


@pytest.fixture(scope="module")
def bucket(testbed, config) -> Store:
    testbed.put_objects("data", [(f"small/{number:03}", 20 + number) for number in range(COUNT)])
    return open_store("gs://data", config)


def wait_until_ready(process: Running) -> None:
    while (said := process.said()) != ("ready\n", ""):
        assert not said[1]
        time.sleep(0.01)


def ended(process: Running) -> tuple[int, str]:
    """Wait for its end; its status, and what it wrote to standard error."""
    found = process.wait()
    return found.returncode, found.stderr


@pytest.fixture
def started(testbed, bucket) -> Iterator[Callable[..., Running]]:
    """Starts a scenario; every test begins and ends without temporaries, and some are made in between."""
    assert left(bucket) == []
    testbed.reset_counts()
    processes: list[Running] = []

    def start(scenario: str, *arguments: str) -> Running:
        processes.append(forked_programs.start(PROGRAM, scenario, testbed.gcs_endpoint, *arguments))
        return processes[-1]

    yield start
    for process in processes:
        if not process.is_over:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert testbed.counts()["requests"].get("compose_object"), "nothing was composed, so this shows nothing"


def left(bucket: Store) -> list[str]:
    return [info.key for info in bucket.list("torchbucket-temporaries/")]


def left_at_rest(bucket: Store) -> list[str]:
    """What is left when the server is done with what a killed process had asked of it."""
    seen: list[list[str]] = []
    while len(seen) < 10 or seen[-10:] != [seen[-1]] * 10:
        seen.append(left(bucket))
        time.sleep(0.05)
    return seen[-1]


def wait_until_none_is_left(bucket: Store) -> None:
    while left(bucket):
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("scenario", "status", "message"),
    [
        ("success", 0, ""),
        ("batches", 0, ""),
        ("failing_transform", 1, "a label is missing"),
        ("exit_in_loop", 3, ""),
        ("forgotten_at_exit", 0, ""),
        ("handlers_restored", 0, ""),
    ],
)
def test_a_process_that_ends_by_itself_leaves_none(started, bucket, scenario, status, message):
    found, errors = ended(started(scenario))
    assert (found, message in errors) == (status, True), errors
    assert left(bucket) == []


def test_a_loop_left_early_leaves_none_while_the_process_goes_on(started, bucket):
    process = started("broken_off")
    wait_until_ready(process)
    assert left(bucket) == []


@pytest.mark.parametrize(
    ("scenario", "number", "status"),
    [
        ("waiting", signal.SIGTERM, -signal.SIGTERM),
        ("waiting_inside_an_executor", signal.SIGTERM, -signal.SIGTERM),
        ("waiting", signal.SIGINT, -signal.SIGINT),  # a KeyboardInterrupt that nobody catches ends Python so
        ("waiting_without_ctrl_c", signal.SIGINT, -signal.SIGINT),
    ],
)
def test_a_signal_ends_the_process_as_ever_and_leaves_none(started, bucket, scenario, number, status):
    process = started(scenario)
    wait_until_ready(process)
    assert left(bucket)
    os.kill(process.pid, number)
    found, errors = ended(process)
    assert found == status, errors
    assert left(bucket) == []


def test_a_programs_own_handler_is_left_alone(started, bucket):
    process = started("own_handler")
    wait_until_ready(process)
    os.kill(process.pid, signal.SIGTERM)
    found, errors = ended(process)
    assert found == 0, errors
    assert left(bucket) == []


@pytest.mark.parametrize(
    ("scenario", "method", "status"),
    [
        ("workers", "fork", 0),
        ("workers_left_early", "fork", 0),
        pytest.param("workers_left_early", "spawn", 0, marks=pytest.mark.nightly),
        ("workers_failing", "fork", 1),
    ],
)
def test_workers_leave_none(started, bucket, scenario, status, method):
    found, errors = ended(started(scenario, method))
    assert found == status, errors
    assert left(bucket) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_a_loader_and_its_workers_leaves_none(started, bucket, number):
    process = started("workers_waiting", "fork")
    wait_until_ready(process)
    assert left(bucket)
    os.killpg(process.pid, number)
    found, errors = ended(process)
    assert found == -number, errors
    wait_until_none_is_left(bucket)


def test_workers_whose_parent_is_killed_remove_theirs(started, bucket):
    process = started("workers_waiting", "fork")
    wait_until_ready(process)
    assert left(bucket)
    os.kill(process.pid, signal.SIGKILL)
    ended(process)
    wait_until_none_is_left(bucket)


def test_what_a_killed_process_leaves_is_swept(started, bucket, config):
    process = started("waiting")
    wait_until_ready(process)
    os.kill(process.pid, signal.SIGKILL)
    ended(process)
    keys = left_at_rest(bucket)
    assert keys
    assert sweep_temporaries("gs://data", config=config).removed == ()  # too young
    assert left(bucket) == keys
    would = sweep_temporaries("gs://data", older_than_s=0, dry_run=True, config=config)
    assert [info.key for info in would.removed] == left(bucket) == keys
    assert [info.key for info in sweep_temporaries("gs://data", older_than_s=0, config=config).removed] == keys
    assert left(bucket) == []
