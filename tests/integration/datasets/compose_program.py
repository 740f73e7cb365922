"""Reads data sets with the compose strategy, in processes that end in one of many ways.

Usage: python compose_program.py SCENARIO ENDPOINT [START_METHOD]

A scenario prints ``ready`` when temporary objects are on their way and it waits to be ended.
"""

from __future__ import annotations

import concurrent.futures.thread
import signal
import sys
import time

from torch.utils.data import DataLoader
from torch.utils.data._utils import worker

from torchbucket import Compose, IterableDataset, MapDataset, StoreConfig

COUNT = 120
WORKERS = 2
PREFIX = "gs://data/small/"


def ready() -> None:
    print("ready", flush=True)


def refuse(reader):
    if reader.key.endswith("050"):
        raise ValueError("a label is missing")
    return reader.read()


def refuse_at_once(reader):
    raise ValueError("a label is missing")


def stream(endpoint: str, **options) -> IterableDataset:
    config = StoreConfig(endpoint=endpoint, anonymous=True)
    return IterableDataset.from_prefix(PREFIX, config=config, fetch=Compose(maximum_objects=8), **options)


def success(endpoint: str) -> None:
    assert len(list(stream(endpoint))) == COUNT


def batches(endpoint: str) -> None:
    config = StoreConfig(endpoint=endpoint, anonymous=True)
    dataset = MapDataset.from_prefix(PREFIX, config=config, fetch=Compose(maximum_objects=8))
    assert sum(map(len, DataLoader(dataset, batch_size=20, shuffle=True, collate_fn=list))) == COUNT


def failing_transform(endpoint: str) -> None:
    list(stream(endpoint, transform=refuse))


def exit_in_loop(endpoint: str) -> None:
    for _ in stream(endpoint):
        sys.exit(3)


def forgotten_at_exit(endpoint: str) -> None:
    globals()["kept"] = iter(stream(endpoint))
    next(globals()["kept"])


def broken_off(endpoint: str) -> None:
    dataset = stream(endpoint)
    for _ in dataset:
        break
    ready()
    time.sleep(60)


def waiting(endpoint: str) -> None:
    for _ in stream(endpoint):
        ready()
        time.sleep(60)


def waiting_without_ctrl_c(endpoint: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    waiting(endpoint)


def waiting_inside_an_executor(endpoint: str) -> None:
    """The signal finds the main thread with a lock that starting work on any executor takes."""
    for _ in stream(endpoint):
        with concurrent.futures.thread._global_shutdown_lock:
            ready()
            time.sleep(60)


def own_handler(endpoint: str) -> None:
    """The program notes the signal and goes on, as one that writes a checkpoint first does."""
    noted = []
    signal.signal(signal.SIGTERM, lambda number, frame: noted.append(number))
    count = 0
    for count, _ in enumerate(stream(endpoint), start=1):
        if count == 1:
            ready()
            while not noted:
                time.sleep(0.01)
    assert count == COUNT


def handlers_restored(endpoint: str) -> None:
    before = signal.getsignal(signal.SIGTERM)
    samples = iter(stream(endpoint))
    next(samples)
    assert signal.getsignal(signal.SIGTERM) != before
    samples.close()
    assert signal.getsignal(signal.SIGTERM) == before


def loader(endpoint: str, method: str, **options) -> DataLoader:
    dataset = stream(endpoint, **options)
    return DataLoader(dataset, batch_size=4, num_workers=WORKERS, multiprocessing_context=method, collate_fn=list)


def workers(endpoint: str, method: str) -> None:
    assert sum(map(len, loader(endpoint, method))) == COUNT


def workers_left_early(endpoint: str, method: str) -> None:
    next(iter(loader(endpoint, method)))


def workers_failing(endpoint: str, method: str) -> None:
    list(loader(endpoint, method, transform=refuse_at_once))


def workers_waiting(endpoint: str, method: str) -> None:
    worker.MP_STATUS_CHECK_INTERVAL = 0.1  # after which a worker looks whether its parent lives; 5 s are long to wait
    batches = iter(loader(endpoint, method))
    # One of each worker: torch's looks up who its parent is once it has the data set's iterator, and waits for ever
    # where that one was killed before.
    for _ in range(WORKERS):
        next(batches)
    ready()
    time.sleep(60)


if __name__ == "__main__":
    scenario, *arguments = sys.argv[1:]
    globals()[scenario](*arguments)
