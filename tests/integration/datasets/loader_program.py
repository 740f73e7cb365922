"""Runs a DataLoader as a user's training script would and prints what it got: a program of its own, since it may hang.

Usage: python loader_program.py SCENARIO START_METHOD URI [ENDPOINT]
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
import traceback
from pathlib import Path

import psutil
import torch.distributed
import torch.multiprocessing
from torch.utils.data import DataLoader

from torchbucket import IterableDataset, MapDataset, StoreConfig

go_on = multiprocessing.get_context("fork").Event()  # of workers that wait


def sample_of(reader):
    return "/".join(reader.key.split("/")[-2:]), len(reader.read())


def refuse(reader):
    raise ValueError("a label is missing")


def loader_of(dataset, method: str, **settings) -> DataLoader:
    return DataLoader(
        dataset, batch_size=5, num_workers=2, multiprocessing_context=method, collate_fn=list, timeout=60, **settings
    )


def epoch(loader) -> list:
    return [sample for batch in loader for sample in batch]


def epochs(method: str, uri: str, config: StoreConfig) -> object:
    """Two epochs of each kind in persistent workers, after the parent has used the same data set."""
    found = {}
    for kind in (MapDataset, IterableDataset):
        dataset = kind.from_prefix(uri, config=config, transform=sample_of)
        stream = iter(dataset)
        used = [next(stream)]  # the parent has reads under way when the workers are made, and until the end
        loader = loader_of(dataset, method, persistent_workers=True, pin_memory=True)
        found[kind.__name__] = [epoch(loader), epoch(loader), [*used, *stream]]
    return found


def early(method: str, uri: str, config: StoreConfig) -> object:
    """Leaves the epoch after one batch, twice, then ends."""
    dataset = IterableDataset.from_prefix(uri, config=config, transform=sample_of)
    loader = loader_of(dataset, method)
    return [next(iter(loader)), next(iter(loader))]


def failing(method: str, uri: str, config: StoreConfig) -> object:
    """A read that fails and a transform that does."""
    return [
        failure(loader_of(MapDataset.from_objects([f"{uri}not-there"], config=config), method)),
        failure(loader_of(IterableDataset.from_prefix(uri, config=config, transform=refuse), method)),
    ]


def failure(loader) -> object:
    try:
        epoch(loader)
    except Exception as error:  # noqa: BLE001  # which one it is, is what the test wants to know
        traceback.clear_frames(error.__traceback__)  # else the garbage collector waits 5 s for each worker
        return {"kind": type(error).__name__, "message": str(error)}
    return "no error"


def interrupted(method: str, uri: str, config: StoreConfig) -> object:
    """Ctrl-C in the middle of an epoch: the parent stops, and its workers with it."""
    found = {}
    for kind in (MapDataset, IterableDataset):
        go_on.clear()
        loader = loader_of(kind.from_prefix(uri, config=config, transform=sample_of_the_first), method)
        batches = iter(loader)
        next(batches)
        workers = [worker.pid for worker in batches._workers]
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            for _ in batches:
                pass
            found[kind.__name__] = "not interrupted"
        except KeyboardInterrupt:
            go_on.set()
        del batches, loader  # after the exception, which holds the frames that hold the iterator
        found.setdefault(kind.__name__, [pid for pid in workers if psutil.pid_exists(pid)])
    return found


def sample_of_the_first(reader):
    """The sample; after each worker's first batch when the parent has been interrupted."""
    if reader.key[-3:] >= "010":
        go_on.wait(60)
    return sample_of(reader)


def waiting(method: str, uri: str, config: StoreConfig) -> object:
    """A transform that takes longer than the loader's timeout."""
    dataset = IterableDataset.from_prefix(uri, config=config, transform=hang)
    try:
        next(iter(DataLoader(dataset, num_workers=1, multiprocessing_context=method, timeout=1)))
    except RuntimeError as error:
        go_on.set()  # else the loader waits 5 s for its worker
        return str(error)
    return "no error"


def hang(reader):
    go_on.wait(600)


def ranks(method: str, uri: str, config: StoreConfig) -> object:
    """Two ranks that only ``torch.distributed`` tells apart, each with workers that do not know it."""
    meeting = Path(f"{uri.removeprefix('file://').rstrip('/')}.meeting")
    torch.multiprocessing.start_processes(run_rank, (method, uri, config, meeting), nprocs=2, start_method=method)
    return [json.loads(meeting.with_suffix(f".{rank}").read_text()) for rank in range(2)]


def run_rank(rank: int, method: str, uri: str, config: StoreConfig, meeting: Path) -> None:
    dataset = IterableDataset.from_prefix(uri, config=config, transform=sample_of)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    meeting.with_suffix(f".{rank}").write_text(json.dumps(epoch(loader_of(dataset, method))))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    multiprocessing.set_forkserver_preload(["torchbucket.datasets", "torch.distributed", "psutil"])
    scenario, method, uri = sys.argv[1:4]
    settings = StoreConfig(endpoint=sys.argv[4], region="us-east-1", anonymous=True) if sys.argv[4:] else StoreConfig()
    print(json.dumps(globals()[scenario](method, uri, settings)))
