"""The memory of writers: never more than the process's budget, and never a wait for another writer."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchbucket.config import MIB
from torchbucket.errors import StoreError
from torchbucket.store.http import memory_budget
from torchbucket.store.http.memory_budget import CHUNK_BYTES, MemoryBudget
from torchbucket.store.store_future import TransportThread


def test_what_was_promised_is_there_whatever_others_took() -> None:
    memory = MemoryBudget()
    first = memory.open_share("memory://first", 5 * MIB, 12 * MIB)
    second = memory.open_share("memory://second", 5 * MIB, 12 * MIB)
    taken = []
    while (chunk := first.take(CHUNK_BYTES)) is not None:
        taken.append(chunk)
    assert sum(map(len, taken)) == 7 * MIB
    assert [len(second.take(2 * MIB) or b"") for _ in range(4)] == [2 * MIB, 2 * MIB, MIB, 0]
    first.give_back(taken)
    assert len(second.take(CHUNK_BYTES) or b"") == CHUNK_BYTES


def test_a_writer_that_cannot_be_promised_anything_is_refused_with_the_figures() -> None:
    memory = MemoryBudget()
    shares = [memory.open_share("memory://k", 5 * MIB, 11 * MIB) for _ in range(2)]
    with pytest.raises(StoreError, match=r"2 writers are open .* 10485760 bytes; this one needs 5242880.* is 11534336"):
        memory.open_share("memory://k", 5 * MIB, 11 * MIB)
    memory.open_share("memory://small", 20_000, 11 * MIB)
    shares[0].close()
    memory.open_share("memory://k", 5 * MIB, 11 * MIB)


def test_a_writer_that_the_collector_ends_while_another_takes_memory_gives_back_its_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = MemoryBudget()
    kept = memory.open_share("memory://kept", 5 * MIB, 20 * MIB)
    forgotten = memory.open_share("memory://forgotten", 5 * MIB, 20 * MIB)
    calls = 0

    def collecting(*values: int) -> int:
        nonlocal calls
        calls += 1
        if calls == 3:  # the last call before the sum of what is taken changes
            forgotten.close()
        return max(*values)

    monkeypatch.setattr(memory_budget, "max", collecting, raising=False)
    assert kept.take(MIB) is not None
    assert calls > 3
    assert memory.taken_bytes == 5 * MIB


def test_the_largest_budget_of_the_stores_with_open_writers_counts() -> None:
    memory = MemoryBudget()
    small = memory.open_share("memory://small", 5 * MIB, 6 * MIB)
    large = memory.open_share("memory://large", 5 * MIB, 20 * MIB)
    assert len(small.take(8 * MIB) or b"") == 8 * MIB
    large.close()
    assert small.take(CHUNK_BYTES) is None


def test_memory_is_used_again_while_a_writer_is_open() -> None:
    memory = MemoryBudget()
    first, second = (memory.open_share("memory://k", MIB, 8 * MIB) for _ in range(2))
    chunk = first.take(CHUNK_BYTES)
    assert chunk is not None
    first.give_back([chunk])
    first.close()
    assert second.take(CHUNK_BYTES) is chunk
    second.close()
    second.give_back([chunk])  # a part that arrives after its writer was closed
    assert memory.spare == []
    assert (memory.taken_bytes, memory.lent_bytes) == (0, 0)


def test_a_share_is_waited_for_while_parts_are_on_their_way() -> None:
    """And nobody is lent meanwhile what comes back, or the new writer would wait as long as others write."""
    memory = MemoryBudget()
    first = memory.open_share("memory://first", 5 * MIB, 12 * MIB)
    chunks = [first.take(MIB) for _ in range(12)]
    first.sent([chunk for chunk in chunks[:6] if chunk is not None])
    with ThreadPoolExecutor(1) as thread:
        opening = thread.submit(memory.open_share, "memory://second", 5 * MIB, 12 * MIB)
        for returned in range(5):
            while memory.budgets.total() < 2:
                assert not opening.done()
            assert first.take(MIB) is None
            assert not opening.done(), returned
            first.give_back([chunks.pop(0)], sent=True)
        second = opening.result(30)
    assert [len(second.take(MIB) or b"") for _ in range(6)] == [MIB] * 5 + [0]


def test_a_share_that_no_part_would_free_is_refused_and_not_waited_for() -> None:
    memory = MemoryBudget()
    first = memory.open_share("memory://first", 5 * MIB, 12 * MIB)
    chunks = [first.take(MIB) for _ in range(12)]
    first.sent(chunks[:1])
    with ThreadPoolExecutor(1) as thread:
        opening = thread.submit(memory.open_share, "memory://second", 5 * MIB, 12 * MIB)
        while memory.budgets.total() < 2:
            assert not opening.done()
        first.give_back(chunks[:1], sent=True)
        with pytest.raises(StoreError, match=r"1 writers are open .* promised 11534336 bytes; this one needs 5242880"):
            opening.result(30)
    assert memory.taken_bytes == 11 * MIB


def test_a_transports_thread_does_not_wait_for_the_parts_that_it_sends() -> None:
    memory, errors = MemoryBudget(), []
    first = memory.open_share("memory://first", 5 * MIB, 5 * MIB)
    first.sent([bytearray(CHUNK_BYTES)])

    def open_another() -> None:
        try:
            memory.open_share("memory://second", 5 * MIB, 5 * MIB)
        except StoreError as error:
            errors.append(str(error))

    thread = TransportThread(open_another, "transport")
    thread.start()
    thread.join(30)
    assert len(errors) == 1
    assert errors[0].startswith("open_writer memory://second: a store's own thread cannot wait")
    assert memory.taken_bytes == 5 * MIB


@given(st.integers(0, 2**32), st.sampled_from([6, 16, 40, 128]))
def test_no_order_of_calls_exceeds_the_budget_or_breaks_a_promise(seed: int, budget_mib: int) -> None:
    rng, memory, budget = random.Random(seed), MemoryBudget(), budget_mib * MIB
    shares: dict[object, tuple[int, list[bytearray]]] = {}
    for _ in range(200):
        action = rng.random()
        if action < 0.15:
            promised = rng.choice((0, 20_000, 5 * MIB, 5 * MIB))
            try:
                shares[memory.open_share("memory://k", promised, budget)] = (promised, [])
            except StoreError:
                assert sum(max(p, sum(map(len, c))) for p, c in shares.values()) + promised > budget
        elif shares:
            share = rng.choice(list(shares))
            promised, chunks = shares[share]
            lent = sum(map(len, chunks))
            if action < 0.75:
                wanted = rng.choice((64 << 10, CHUNK_BYTES, CHUNK_BYTES, 300_000))
                chunk = share.take(wanted)
                if chunk is not None:
                    chunks.append(chunk)
                assert chunk is not None or lent >= promised
            elif action < 0.95 and chunks:
                share.give_back([chunks.pop(rng.randrange(len(chunks)))])
            else:
                share.close()
                share.give_back(chunks)
                del shares[share]
        lent = sum(sum(map(len, chunks)) for _, chunks in shares.values())
        assert memory.lent_bytes == lent
        assert lent + len(memory.spare) * CHUNK_BYTES <= budget
        assert memory.taken_bytes == sum(max(p, sum(map(len, c))) for p, c in shares.values()) <= budget
    for share, (_, chunks) in shares.items():
        share.close()
        share.give_back(chunks)
    assert (memory.taken_bytes, memory.lent_bytes, memory.spare) == (0, 0, [])
