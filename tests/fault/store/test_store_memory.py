"""The memory of callers is let go as soon as a call is over, however it ended, and needs no collector for it."""

from __future__ import annotations

import contextlib
import gc
import time
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scripted_s3 import Fault, ScriptedS3

from torchbucket import PermissionDeniedError
from torchbucket.config import MIB
from torchbucket.store import Read, Store
from torchbucket.store.wrappers import LimitedStore, MeteredStore

Opened = Callable[..., Store]
Use = Callable[[Store, memoryview], object]

SIZES = [pytest.param(100, id="one request"), pytest.param(12 * MIB, id="several requests")]
OUTCOMES: dict[str, list[int]] = {"right": [], "tried again": [500], "failed": [403] * 6}
ASKED = ("get_object", "head_object", "put_object", "begin_upload", "upload_part", "list_objects")


class Tensor(np.ndarray):
    """Memory of which it can be told whether it is there: an array's views can be referred to weakly."""


@pytest.fixture(scope="module", autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def is_let_go(memory: weakref.ref[Tensor]) -> bool:
    limit_s = time.monotonic() + 20
    while memory() is not None:  # The transport's thread may be at its last step.
        if time.monotonic() > limit_s:
            return False
        time.sleep(0.005)
    return True


def used(store: Store, size_bytes: int, use: Use, *, fails: bool) -> weakref.ref[Tensor]:
    tensor = np.zeros(size_bytes, np.uint8).view(Tensor)
    with pytest.raises(PermissionDeniedError) if fails else contextlib.nullcontext():
        use(store, memoryview(tensor))
    return weakref.ref(tensor)


def read(store: Store, memory: memoryview) -> None:
    store.submit_read(Read(key="k", into=memory)).result(60)


def read_copy(store: Store, memory: memoryview) -> None:
    memory[:] = store.read("k").data  # An error keeps this frame.


def read_known(store: Store, memory: memoryview) -> None:
    store.submit_read(Read(key="k", into=memory, size_bytes=len(memory))).result(60)


def read_into(store: Store, memory: memoryview) -> None:
    targets = [(0, memory[:50]), (50, memory[50:])]
    store.submit_read_into("k", targets, size_bytes=len(memory)).result(60)


def write_from(store: Store, memory: memoryview) -> None:
    store.write_from("k", [memory])


def read_wrapped(store: Store, memory: memoryview) -> None:
    memory[:] = LimitedStore(MeteredStore(store), 2).read("k").data


def stream(store: Store, memory: memoryview) -> None:
    with store.open_writer("k") as writer:
        writer.write(memory)


def list_beside(store: Store, memory: memoryview) -> None:  # an error keeps this frame
    assert list(store.list()) == []


@pytest.mark.parametrize("size_bytes", SIZES)
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("use", [read, read_copy, read_known, read_into, read_wrapped, write_from, stream, list_beside])
def test_memory_is_let_go_when_a_call_is_over(
    server: ScriptedS3, opened: Opened, use: Use, outcome: str, size_bytes: int
) -> None:
    server.objects["k"] = bytes(size_bytes)
    server.pages = [b"<ListBucketResult/>"]
    for kind in ASKED:
        server.faults[kind].extend(Fault(status=status) for status in OUTCOMES[outcome])
    assert is_let_go(used(opened(), size_bytes, use, fails=outcome == "failed"))
