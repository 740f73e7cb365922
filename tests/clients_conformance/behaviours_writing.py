"""Uploads in parts, copies, conditions, and what is said about an object."""

from __future__ import annotations

import base64
import hashlib
import urllib.request

import google_crc32c
import pytest
from behaviour import behaviour, noise
from broken import BrokenError, broken_pieces
from client_shape import PART_BYTES, Bench, Described

LARGE = noise(2 * PART_BYTES + 12_345, seed=2)


@behaviour("a large object, in parts or through a session")
def large(bench: Bench) -> None:
    bench.testbed.reset_counts()
    bench.client.save_large("folder/large", LARGE)
    counts = bench.testbed.counts()["requests"]
    # One request a part, whatever the way: the client really did not send it whole.
    assert max(counts.get("upload_part", 0), counts.get("upload_chunk", 0)) >= 3, counts
    assert bench.open_uploads() == []
    assert bench.wire.get("folder/large") == LARGE
    assert bench.client.load_large("folder/large") == LARGE
    if "load_range" in bench.client.lacks:
        return
    around = slice(PART_BYTES - 10, PART_BYTES + 10)
    assert bench.client.load_range("folder/large", around.start, around.stop) == LARGE[around]


@behaviour("a stream of small pieces")
def stream(bench: Bench) -> None:
    body = noise(300_000, seed=3)
    bench.client.stream("folder/stream", [body[start : start + 7001] for start in range(0, len(body), 7001)])
    assert bench.wire.get("folder/stream") == body
    assert bench.open_uploads() == []


@behaviour("a stream of no bytes")
def empty_stream(bench: Bench) -> None:
    bench.client.stream("folder/empty", [])
    assert bench.wire.get("folder/empty") == b""
    assert bench.open_uploads() == []


@behaviour("a writer's block that fails publishes nothing")
def broken_stream(bench: Bench) -> None:
    with pytest.raises(BrokenError):
        bench.client.stream("folder/broken", broken_pieces())
    assert bench.wire.names() == []
    assert bench.open_uploads() == []


@behaviour("an upload given up leaves nothing")
def abandoned(bench: Bench) -> None:
    bench.client.abandon("folder/abandoned", LARGE)
    assert bench.open_uploads() == []
    assert bench.wire.names() == []


@behaviour("copy on the server")
def copy(bench: Bench) -> None:
    body = noise(200_000, seed=4)
    bench.wire.put("from/a b+c", body, **{"content-type": "text/x-test", "x-amz-meta-colour": "blue"})
    bench.testbed.reset_counts()
    bench.client.copy("from/a b+c", "to/é")
    counts = bench.testbed.counts()
    assert counts["bytes_in"] + counts["bytes_out"] < len(body), counts
    assert bench.wire.get("to/é") == body
    answer = bench.wire.ask("HEAD", "to/é")
    assert (answer.headers["content-type"], answer.headers["x-amz-meta-colour"]) == ("text/x-test", "blue")
    assert bench.wire.names() == ["from/a b+c", "to/é"]


@behaviour("rename")
def rename(bench: Bench) -> None:
    bench.wire.put("from", b"body")
    bench.client.move("from", "to")
    assert bench.wire.names() == ["to"]
    assert bench.wire.get("to") == b"body"


@behaviour("compose")
def compose(bench: Bench) -> None:
    pieces = [noise(1000 + number, seed=number) for number in range(5)]
    for number, piece in enumerate(pieces):
        bench.wire.put(f"piece/{number}", piece)
    bench.client.compose([f"piece/{number}" for number in range(5)], "whole")
    assert bench.wire.get("whole") == b"".join(pieces)


@behaviour("create only where there is none")
def create(bench: Bench) -> None:
    bench.client.create("object", b"first")
    with bench.client.refusal("exists"):
        bench.client.create("object", b"second")
    assert bench.wire.get("object") == b"first"


@behaviour("replace only this version")
def replace(bench: Bench) -> None:
    bench.client.save("object", b"first")
    first = bench.client.version("object")
    bench.client.replace("object", b"second", first)
    assert bench.wire.get("object") == b"second"
    assert bench.client.version("object") != first
    with bench.client.refusal("condition"):
        bench.client.replace("object", b"third", first)
    assert bench.wire.get("object") == b"second"


@behaviour("load only this version")
def load_version(bench: Bench) -> None:
    bench.client.save("object", b"first")
    first = bench.client.version("object")
    assert bench.client.load_version("object", first) == b"first"
    bench.client.save("object", b"second")
    with bench.client.refusal("condition"):
        bench.client.load_version("object", first)


@behaviour("content type and user metadata")
def described(bench: Bench) -> None:
    said = Described(content_type="text/x-test", metadata={"colour": "blue", "size-class": "9"})
    bench.client.save_described("object", b"body", said)
    answer = bench.wire.ask("HEAD", "object")
    assert (answer.headers["content-type"], answer.headers["x-amz-meta-colour"]) == ("text/x-test", "blue")
    assert bench.client.described("object") == said


@behaviour("a wrong checksum is refused")
def mislabelled(bench: Bench) -> None:
    with bench.client.refusal("checksum"):
        bench.client.save_mislabelled("object", b"these bytes", b"other bytes")
    assert bench.wire.names() == []


@behaviour("MD5 and CRC-32C are right")
def digests(bench: Bench) -> None:
    body = noise(100_000, seed=5)
    bench.client.save("object", body)
    right = {
        "md5": base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode(),
        "crc32c": base64.b64encode(google_crc32c.value(body).to_bytes(4, "big")).decode(),
    }
    told = dict(bench.client.digests("object"))
    assert told, "no digest at all"
    assert told == {name: right[name] for name in told}


@behaviour("a signed address reads")
def signed_get(bench: Bench) -> None:
    bench.wire.put("folder/a b+é", b"body")
    with urllib.request.urlopen(bench.client.signed_get("folder/a b+é"), timeout=30) as answer:
        assert answer.read() == b"body"


@behaviour("a signed address writes")
def signed_put(bench: Bench) -> None:
    request = urllib.request.Request(bench.client.signed_put("folder/a b+é"), data=b"body", method="PUT")
    request.add_header("content-type", "application/octet-stream")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200
    assert bench.wire.get("folder/a b+é") == b"body"
