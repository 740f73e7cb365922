"""Listings: prefix, pages, delimiter, start."""

from __future__ import annotations

import contextlib
import functools

from behaviour import behaviour
from client_shape import Bench
from wire import Wire

from buckettestbed import RunningTestbed


@behaviour("a prefix is plain text")
def prefix(bench: Bench) -> None:
    names = ["logs/20250627", "logs/20250627_a", "logs/20250627_b/c", "logs/20250628", "log", "other"]
    for name in names:
        bench.wire.put(name, name.encode())
    found = bench.client.listing("logs/20250627")
    assert sorted(found) == [(name, len(name)) for name in names[:3]]


@behaviour("everything, without a prefix")
def everything(bench: Bench) -> None:
    names = ["a", "b/c", "b/d/e", "z"]
    for name in names:
        bench.wire.put(name, b"x")
    assert sorted(bench.client.listing("")) == [(name, 1) for name in names]


@behaviour("a listing of nothing is empty")
def nothing(bench: Bench) -> None:
    bench.wire.put("other", b"x")
    assert bench.client.listing("folder/") == []


NAMES = [f"pages/{number:05}" for number in range(5000)]


@functools.lru_cache(maxsize=1)
def crowded_bucket(testbed: RunningTestbed) -> str:
    """Returns a bucket with 5,000 objects, made once for all clients."""
    with contextlib.closing(Wire(testbed)) as wire:
        for name in NAMES:
            wire.put(name, b"x")
        return wire.bucket


@behaviour("5,000 names, page by page")
def pages(bench: Bench) -> None:
    client = bench.with_bucket(crowded_bucket(bench.testbed))
    bench.testbed.reset_counts()
    assert sorted(client.listing("pages/")) == [(name, 1) for name in NAMES]
    counts = bench.testbed.counts()["requests"]
    asked = sum(number for name, number in counts.items() if name.startswith("list_objects"))
    assert asked >= 5, counts


@behaviour("a delimiter rolls names up")
def delimiter(bench: Bench) -> None:
    for name in ("a/1", "a/2", "a/b/3", "a/b/4", "a/c/5", "top", "z/6"):
        bench.wire.put(name, b"x")
    assert bench.client.list_folder("") == (["top"], ["a/", "z/"])
    assert bench.client.list_folder("a/") == (["a/1", "a/2"], ["a/b/", "a/c/"])


@behaviour("a listing that starts at a name")
def start(bench: Bench) -> None:
    names = ["a", "b", "b/1", "c"]
    for name in names:
        bench.wire.put(name, b"x")
    # "b0" is no name: S3 lists what comes after it, GCS from it on, and both say the same.
    assert bench.client.list_after("b0") == ["c"]
    assert bench.client.list_after("b") == (["b", "b/1", "c"] if bench.client.starts_at_name else ["b/1", "c"])
