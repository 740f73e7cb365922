"""Options shared by every test: what runs on each commit, what at night, and what needs a real bucket."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from quick_compositions import quick_compositions
from testbed_tables import Table

from bucketbench.telemetry import processes
from bucketbench.telemetry.peak_memory import rss_bytes
from torchbucket.store import memory

# How fast examples are made says how busy the machine is, and its disk.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("commit", _PATIENT, derandomize=True, max_examples=25)  # the same each time
settings.register_profile("nightly", _PATIENT, max_examples=1000, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--live", action="store_true", help="also run the tests that need a real bucket")
    parser.addoption(
        "--nightly",
        action="store_true",
        help="also run what is marked nightly, and draw many examples by random seeds where hypothesis draws them",
    )
    parser.addoption(
        "--write-tables",
        action="store_true",
        help="replace the documents' tables by those that the tests made, where all their tests run (with --nightly)",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell's background job (`nohup make test &`, as CI may run it) ignores SIGINT, and so would all that the tests
    # start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("COLUMNS", None)  # how wide this terminal is says nothing of what is tested
    # So that the processes of a forkserver have it, which would each import torch.
    multiprocessing.set_forkserver_preload(["torchbucket.datasets"])
    Table.writes = config.getoption("--write-tables")
    settings.load_profile("nightly" if config.getoption("--nightly") else "commit")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep what is collected out of the garbage collector's way: it stays, and is looked through again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)  # Libraries that tests import keep what they made as well.
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def compositions() -> Iterator[None]:
    with quick_compositions():
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_memory() -> Iterator[None]:
    """Have samples of this process's memory take no time.

    It is large, and its proportional set size takes the kernel a tenth of a second: jobs that are measured in it would
    spend as much on that as on all else.
    """
    proportional = processes._proportional_set_bytes

    def resident(pid: int) -> int | None:
        return rss_bytes() if pid == os.getpid() else proportional(pid)

    with mock.patch.object(processes, "_proportional_set_bytes", resident):
        yield


@pytest.fixture(scope="module", autouse=True)
def modules_uncollected() -> None:
    """Keep what was imported since out of its way too: a look at it all takes as long as ten tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def empty_memory_buckets() -> None:
    """A module finds nothing in buckets in memory that another, which this process ran before, has left there."""
    for bucket in memory._buckets.values():
        bucket.objects.clear()
        bucket.order = None


# Each takes half a minute or more: begun last, one would run by itself at the end, while the others have nothing left.
_LONGEST = (
    "test_clients.py",
    "test_readme.py",
    "test_store_processes.py",
    "test_fsspec_own_suite.py",
    "test_strategies.py",
    "test_ranks.py",
    "test_failing_clients.py",
    "test_resume.py",
    "test_sweeps.py",
    "test_resuming.py",
    "test_loop.py",
    "test_read_ahead_loaders.py",
    "test_measured_clients.py",
    "test_extensions.py",
    "test_listing_clients.py",
    "test_composition.py",
    "test_courses.py",
    "test_training_run.py",
)
_NIGHTLY_TIMEOUT_S = 900  # For a thousand examples.


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _LONGEST.index(item.path.name) if item.path.name in _LONGEST else len(_LONGEST))
    if config.getoption("--nightly"):
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_NIGHTLY_TIMEOUT_S))
    else:
        config.hook.pytest_deselected(items=[item for item in items if "nightly" in item.keywords])
        items[:] = [item for item in items if "nightly" not in item.keywords]
    if not config.getoption("--live"):
        for item in items:
            if "live" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs a real bucket: pass --live"))
