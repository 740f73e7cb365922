"""Ends, in several ways, while a save in the background is under way: ``save_async_program.py DIRECTORY HOW``."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch

import torchbucket
from torchbucket.store.file.store import FileStore

directory, how = Path(sys.argv[1]), sys.argv[2]
write_from = FileStore.write_from


def slow(store: FileStore, key: str, pieces: Any, **options: Any) -> Any:
    time.sleep(0.3)
    if how == "failure":
        raise OSError("the device is full")
    return write_from(store, key, pieces, **options)


FileStore.write_from = slow  # type: ignore[method-assign]
# Where the program ends meanwhile, what was saved is read back when Python's own pools take no work any more.
state = {"epoch": 7, "weight": torch.ones(1000)}
future = torchbucket.save_async(state, directory / "k.pt", verify=how == "exception")
assert not future.done()
if how == "fork":
    child = os.fork()
    if child == 0:
        # The parent's save is not the child's: it neither waits for it nor hears of it, and saves by itself.
        print(type(future.exception(timeout=10)).__name__, flush=True)
        torchbucket.save_async({"epoch": 8}, directory / "child.pt").result(10)
        torchbucket.save({"epoch": 9}, directory / "k-child.pt")
        print(threading.active_count(), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
if how == "exception":
    raise SystemExit(3)
