"""Whole objects, ranges, what is missing, and deletion."""

from __future__ import annotations

from behaviour import behaviour, noise
from client_shape import Bench

BODY = noise(100_000)


@behaviour("save, then load")
def save_and_load(bench: Bench) -> None:
    bench.client.save("folder/object", BODY)
    assert bench.wire.get("folder/object") == BODY
    assert bench.client.load("folder/object") == BODY


@behaviour("an object of no bytes")
def empty(bench: Bench) -> None:
    bench.client.save("folder/empty", b"")
    assert bench.wire.get("folder/empty") == b""
    assert bench.client.load("folder/empty") == b""
    assert bench.client.listing("folder/") == [("folder/empty", 0)]


@behaviour("an overwrite is seen at once")
def overwrite(bench: Bench) -> None:
    for number in range(1, 6):
        bench.client.save("folder/object", b"x" * number)
        assert bench.client.load("folder/object") == b"x" * number
        assert bench.client.listing("folder/") == [("folder/object", number)]


@behaviour("the size without reading")
def size(bench: Bench) -> None:
    bench.wire.put("folder/object", BODY)
    assert bench.client.size("folder/object") == len(BODY)


@behaviour("a range: first, middle, last bytes")
def ranges(bench: Bench) -> None:
    bench.wire.put("object", BODY)
    for start, stop in ((0, 1), (0, 1000), (50_000, 60_001), (len(BODY) - 1, len(BODY)), (0, len(BODY))):
        assert bench.client.load_range("object", start, stop) == BODY[start:stop], (start, stop)


@behaviour("a range of the last n bytes")
def suffix_range(bench: Bench) -> None:
    bench.wire.put("object", BODY)
    for length_bytes in (1, 1000, len(BODY)):
        assert bench.client.load_tail("object", length_bytes) == BODY[-length_bytes:]


@behaviour("a range that ends beyond the object")
def range_beyond(bench: Bench) -> None:
    bench.wire.put("object", BODY)
    assert bench.client.load_range("object", len(BODY) - 10, len(BODY) + 10) == BODY[-10:]


@behaviour("a range that begins beyond it is refused")
def range_refused(bench: Bench) -> None:
    bench.wire.put("object", BODY)
    with bench.client.refusal("range"):
        bench.client.load_range("object", len(BODY), len(BODY) + 10)


@behaviour("a missing object is an error")
def missing_object(bench: Bench) -> None:
    bench.client.save("there", b"x")
    with bench.client.refusal("missing"):
        bench.client.load("not/there")


@behaviour("a missing bucket is an error")
def missing_bucket(bench: Bench) -> None:
    elsewhere = bench.with_bucket("no-such-bucket")
    with elsewhere.refusal("no bucket"):
        elsewhere.load("object")


@behaviour("delete")
def delete(bench: Bench) -> None:
    bench.wire.put("folder/object", BODY)
    bench.wire.put("folder/other", BODY)
    bench.client.delete("folder/object")
    assert bench.wire.names() == ["folder/other"]
    with bench.client.refusal("missing"):
        bench.client.load("folder/object")


@behaviour("delete of a missing object, as the provider answers it")
def delete_missing(bench: Bench) -> None:
    if "delete missing" in bench.client.errors:
        with bench.client.refusal("delete missing"):
            bench.client.delete("not/there")
    else:
        bench.client.delete("not/there")


@behaviour("delete many at once")
def delete_many(bench: Bench) -> None:
    names = [f"folder/{number:03}" for number in range(120)]
    for name in [*names, "kept"]:
        bench.wire.put(name, b"x")
    bench.client.delete_many(names)
    assert bench.wire.names() == ["kept"]
