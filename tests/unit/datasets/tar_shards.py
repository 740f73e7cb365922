"""Small tar shards in memory for tests of the data set over them."""

from __future__ import annotations

import io
import random
import tarfile

from torchbucket.store import open_store

FIELDS = ("cls", "jpg")


def shard(keys: list[str], sizes: list[int]) -> bytes:
    """An archive of samples with two fields each, the second of a size of its own."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as writer:
        for key, size in zip(keys, sizes, strict=True):
            for field, content in zip(FIELDS, (key.encode(), key.encode()[:1] * size), strict=True):
                info = tarfile.TarInfo(f"{key}.{field}")
                info.size = len(content)
                writer.addfile(info, io.BytesIO(content))
    return body.getvalue()


def entry(name: bytes, content: bytes = b"", *, kind: bytes = b"0", magic: bytes = b"ustar\x0000", **fields) -> bytes:
    """One header, as POSIX has it, and its content; ``fields`` replaces single ones by their offset's name."""
    block = bytearray(512)
    block[0:100] = name.ljust(100, b"\0")
    block[100:108] = b"0000644\0"
    block[124:136] = fields.get("size", b"%011o\0" % len(content))
    block[156:157] = kind
    block[257:265] = magic
    block[345:500] = fields.get("prefix", b"").ljust(155, b"\0")
    block[148:156] = b" " * 8
    block[148:156] = fields.get("checksum", b"%06o\0 " % sum(block))
    return bytes(block) + content + bytes(-len(content) % 512)


def fill(uri: str, counts: list[int], *, largest: int = 3000, seed: int = 1) -> list[str]:
    """Write a shard of so many samples for each count under a bucket's root; return the samples' keys in order."""
    draw = random.Random(seed)
    store = open_store(uri)
    keys = []
    for number, count in enumerate(counts):
        of_shard = [f"{number:02}-{sample:03}" for sample in range(count)]
        store.write(f"{number:02}.tar", shard(of_shard, [draw.randrange(largest) for _ in of_shard]))
        keys += of_shard
    return keys


def key_of(sample) -> str:
    """The sample's key, once its content was found right."""
    assert sample["cls"] == sample.key.encode()
    assert set(sample["jpg"]) <= set(sample.key.encode()[:1])
    return sample.key
