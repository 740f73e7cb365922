"""The kernel's record of the highest memory: it begins anew when asked, and misses no moment."""

from __future__ import annotations

import os

import pytest

from bucketbench.telemetry.peak_memory import forget_peak, give_back_free_memory, peak_rss_bytes, rss_bytes

MIB = 1 << 20

pytestmark = pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the system keeps no record")


def test_memory_that_was_taken_for_a_moment_is_in_the_record_until_it_begins_anew() -> None:
    give_back_free_memory()  # so that the garbage of tests before is not freed in between
    assert forget_peak()
    before_bytes = rss_bytes()
    taken = bytearray(b"x") * (64 * MIB)
    del taken
    assert peak_rss_bytes() >= before_bytes + 60 * MIB
    give_back_free_memory()
    assert forget_peak()
    assert peak_rss_bytes() < before_bytes + 30 * MIB


def test_what_only_a_cycle_holds_is_given_back() -> None:
    cycle: list[object] = [bytearray(b"x") * (64 * MIB)]
    cycle.append(cycle)
    held_bytes = rss_bytes()
    del cycle
    give_back_free_memory()
    assert rss_bytes() <= held_bytes - 60 * MIB
