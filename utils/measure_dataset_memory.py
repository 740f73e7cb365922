"""Measure the memory of a map-style data set in a DataLoader's parent and workers, beside a plain list of names.

No request is made: the listing is synthetic. Run it as

    python utils/measure_dataset_memory.py --objects 1000000 --workers 8 --start-method spawn

and it prints a Markdown table. RSS counts a page that processes share in each of them, PSS divides it among them, so
the sum of PSS is what the machine really gives. "Touched" is after every worker has read names at random indices.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import torch
from torch.utils.data import Dataset

from torchbucket import MapDataset, StoreConfig
from torchbucket.datasets.settings import MapSettings
from torchbucket.datasets.source import ObjectSource
from torchbucket.datasets.transform import read_bytes
from torchbucket.listing import Listing
from torchbucket.uri import ObjectURI

MIB = 1 << 20
ROOT = ObjectURI(scheme="s3", bucket="synthetic-bucket")


def names(count: int) -> Iterator[str]:
    """Names such as data sets have, in byte order: a directory for each thousand objects, 38 characters."""
    for index in range(count):
        yield f"train/class-{index // 1000:05}/image-{index:09}.jpeg"


class ListOfNames(Dataset[str]):
    """What a data set is that keeps a Python list of names and sizes."""

    def __init__(self, count: int) -> None:
        self.objects = [(name, 100_000) for name in names(count)]

    def name(self, index: int) -> str:
        return self.objects[index][0]


class Columns(Dataset[str]):
    """The data set of this package, over a synthetic listing."""

    def __init__(self, count: int) -> None:
        listing = Listing.collect((name, 100_000) for name in names(count))
        self.dataset = MapDataset(ObjectSource(ROOT, StoreConfig(), listing), read_bytes, MapSettings())

    def name(self, index: int) -> str:
        return self.dataset.keys[index]


def worker(dataset: ListOfNames | Columns, count: int, seed: int, ready: object, go: object) -> None:
    """Hold the data set, then touch it, and stay until told to end."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(2):
        gc.collect()
        ready.put(os.getpid())  # type: ignore[attr-defined]  # a multiprocessing queue has no public type
        go.get()  # type: ignore[attr-defined]
        for index in torch.randint(count, (min(count, 100_000),), generator=generator).tolist():
            dataset.name(index)


def memory_mib(pid: int) -> tuple[float, float]:
    """RSS and PSS of a process in MiB."""
    full = psutil.Process(pid).memory_full_info()
    return full.rss / MIB, full.pss / MIB


def measure(kind: type[ListOfNames] | type[Columns] | None, count: int, workers: int, method: str) -> list[str]:
    """Rows of the table for one kind of data set; None for the process without any."""
    context = multiprocessing.get_context(method)
    dataset = ListOfNames(0) if kind is None else kind(count)
    gc.collect()
    ready, go = context.Queue(), context.Queue()
    processes = [
        context.Process(target=worker, args=(dataset, 0 if kind is None else count, seed, ready, go), daemon=True)
        for seed in range(workers)
    ]
    for process in processes:
        process.start()
    label = "none" if kind is None else {"ListOfNames": "list of (str, int)", "Columns": "torchbucket"}[kind.__name__]
    rows = []
    for moment in ("started", "touched"):
        pids = [ready.get() for _ in processes]
        parent, children = memory_mib(os.getpid()), [memory_mib(pid) for pid in pids]
        rss, pss = (sum(child[which] for child in children) for which in (0, 1))
        rows.append(
            f"| {label} | {moment} | {parent[0]:.0f} / {parent[1]:.0f} | {rss / workers:.0f} / {pss / workers:.0f} "
            f"| {parent[1] + pss:.0f} |"
        )
        if kind is None:
            break
        for _ in processes:
            go.put(None)
    for process in processes:
        process.terminate()
        process.join()
    return rows


KINDS: dict[str, type[ListOfNames] | type[Columns] | None] = {"none": None, "list": ListOfNames, "columns": Columns}


def main() -> None:
    """Read the command line and print the table; every data set is measured in an interpreter of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--start-method", choices=["spawn", "forkserver", "fork"], default="spawn")
    parser.add_argument("--only", choices=list(KINDS), help="print the rows of one data set alone")
    arguments = parser.parse_args()
    if arguments.only:
        rows = measure(KINDS[arguments.only], arguments.objects, arguments.workers, arguments.start_method)
        print("\n".join(rows))
        return
    print(f"{arguments.objects:,} objects, {arguments.workers} workers, {arguments.start_method}; MiB\n")
    print(
        "| data set | moment | parent: RSS / PSS | a worker: RSS / PSS | all: PSS |\n|---|---|---|---|---|", flush=True
    )
    for kind in KINDS:
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--only", kind], check=True)


if __name__ == "__main__":
    main()
