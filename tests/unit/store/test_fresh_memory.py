"""Memory for reads: in huge pages where the system has them, and each piece freed by itself."""

from __future__ import annotations

import mmap
import re
import sys
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
import torch

from torchbucket import load, save
from torchbucket.safetensors import load_file, save_file
from torchbucket.store.fresh_memory import FRESH_BYTES, fresh_memory, populate

has_huge_pages = pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="only a Linux with huge pages tells of them"
)
tells_memory = pytest.mark.skipif(sys.platform != "linux", reason="the memory in use is told by Linux")


def flags_of(address: int) -> set[str]:
    """What Linux says of the memory at an address: ``hg`` where huge pages were asked for."""
    is_there = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        place = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if place:
            is_there = int(place[1], 16) <= address < int(place[2], 16)
        elif is_there and line.startswith("VmFlags:"):
            return set(line.split()[1:])
    raise AssertionError(f"no memory at {address:#x}")


def test_it_is_full_of_zeros_and_can_be_written():
    memory = fresh_memory(3 * mmap.PAGESIZE + 1)
    assert bytes(memory) == bytes(3 * mmap.PAGESIZE + 1)
    memory[1:3] = b"ab"
    assert memory[:4] == b"\0ab\0"


@has_huge_pages
@pytest.mark.parametrize("count", [1, 5])
def test_what_is_loaded_lies_in_huge_pages(count):
    state = {f"{number}": torch.full((FRESH_BYTES,), number, dtype=torch.uint8) for number in range(count)}
    save(state, "memory://fresh/a.pt")
    save_file(state, "memory://fresh/a.safetensors")
    for loaded in (load("memory://fresh/a.pt"), load_file("memory://fresh/a.safetensors")):
        for name, tensor in loaded.items():
            assert torch.equal(tensor, state[name])
            assert "hg" in flags_of(tensor.data_ptr())


def used_bytes(places: list[tuple[int, int]]) -> int:
    """How much memory the pages at these addresses take: that of the process alone, and of nobody else's in it."""
    with Path("/proc/self/pagemap").open("rb") as file:
        used = 0
        for address, length in places:
            file.seek(address // mmap.PAGESIZE * 8)
            entries = np.frombuffer(file.read(-(-length // mmap.PAGESIZE) * 8), np.uint64)
            used += int(np.count_nonzero(entries >> np.uint64(62)))  # in memory, or swapped out
    return used * mmap.PAGESIZE


class AnsweringFuture(Future[None]):
    """It is done when asked for the sixth time."""

    asked = 0

    def done(self) -> bool:
        self.asked += 1
        return self.asked > 5


def test_who_is_interrupted_while_it_is_populated_gives_the_reads_up(monkeypatch):
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("torchbucket.store.fresh_memory._madvise", interrupted)
    reads = [Future[None](), Future[None]()]
    with pytest.raises(KeyboardInterrupt):
        populate([(0, FRESH_BYTES)], reads)
    assert all(read.cancelled() for read in reads)


@tells_memory
def test_it_is_populated_as_long_as_it_is_wanted():
    pieces = [torch.frombuffer(fresh_memory(16 << 20), dtype=torch.uint8) for _ in range(2)]
    pieces[0][7] = 1
    places = [(piece.data_ptr(), len(piece)) for piece in pieces]
    before = used_bytes(places)
    ended, under_way = Future[None](), [AnsweringFuture()]
    ended.set_result(None)
    populate(places, [ended])
    assert used_bytes(places) - before < 8 << 20
    populate(places, under_way)
    if used_bytes(places) == before:
        pytest.skip("a kernel older than 5.14")
    assert 16 << 20 < used_bytes(places) - before < 28 << 20, "the first piece, and 4 MiB of the second"
    assert int(pieces[0].sum()) == 1


@tells_memory
def test_each_piece_goes_back_to_the_system_by_itself():
    """Dropping the optimizer's state of a checkpoint makes room, though it shares huge pages with the model's."""
    pieces = [torch.frombuffer(fresh_memory(1 << 20), dtype=torch.uint8) for _ in range(32)]
    places = [(piece.data_ptr(), len(piece)) for piece in pieces]
    for piece in pieces:
        piece.numpy()[:] = 1
    all_bytes = used_bytes(places)
    del piece, pieces[::2]
    assert all_bytes > 30 << 20
    assert used_bytes(places) < all_bytes - (14 << 20)
    assert all(np.all(piece.numpy() == 1) for piece in pieces)


def test_a_kernel_without_huge_pages_gives_plain_memory(monkeypatch):
    class WithoutHugePages(mmap.mmap):
        def madvise(self, *_):
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr("torchbucket.store.fresh_memory.mmap.mmap", WithoutHugePages)
    assert bytes(fresh_memory(10)) == bytes(10)
