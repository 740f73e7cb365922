"""s3torchconnector's own client over the AWS CRT: uploads are aws-chunked with a trailing CRC32C."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import ClassVar

from broken import eventually_named, published_truncated
from client_shape import PART_BYTES, Bench, Client, Departure, Place
from s3torchconnector import S3ClientConfig
from s3torchconnector._s3client import S3Client
from s3torchconnectorclient._mountpoint_s3_client import S3Exception


@functools.lru_cache(maxsize=4)
def _made(endpoint: str) -> S3Client:
    settings = S3ClientConfig(force_path_style=True, part_size=PART_BYTES, max_attempts=1)
    return S3Client("us-east-1", endpoint=endpoint, s3client_config=settings)


def only_plain_names_are_copied(bench: Bench) -> None:
    for name in ("plain", "a b"):
        bench.wire.put(name, name.encode())
    bench.client.copy("plain", "to/a b+é")
    assert bench.wire.get("to/a b+é") == b"plain"
    with bench.client.refusal("copy source"):
        bench.client.copy("a b", "target")
    assert "target" not in bench.wire.names()


def nothing_lies_beyond(bench: Bench) -> None:
    bench.wire.put("object", b"body")
    assert bench.client.load_range("object", 4, 10) == b""


def unclosed_is_published(bench: Bench) -> None:
    bench.client.abandon("object", bytes(PART_BYTES + 1))
    assert eventually_named(bench) == ["object"]
    assert bench.client.size("object") == PART_BYTES + 1


class S3TorchConnector(Client):
    name = "s3torchconnector"
    lacks: ClassVar = {
        "delete_many": "one object at a time",
        "load_tail": "it seeks from the end, which asks for the length first",
        "list_after": "it lists from the beginning",
        "move": "S3 has no rename, and it makes up none",
        "compose": "S3 joins objects only as parts of an upload",
        "create": "it has no conditions",
        "replace": "it has no conditions",
        "load_version": "it has no conditions",
        "save_described": "it writes bytes only",
        "described": "it shows name, size and ETag only",
        "save_mislabelled": "it takes no checksum from its caller",
        "digests": "it shows the ETag as it is, and no digest",
        "signed_get": "it signs no addresses",
        "signed_put": "it signs no addresses",
        "trusting": "its TLS trusts the system's authorities only, and tells of others after 80 s of attempts",
    }
    departs: ClassVar = {
        "a writer's block that fails publishes nothing": published_truncated("s3torchconnector"),
        "an upload given up leaves nothing": Departure(
            says="s3torchconnector publishes what was written to a writer that was not closed.",
            shown=unclosed_is_published,
        ),
        "copy on the server": Departure(
            says="s3torchconnector sends the source's name unescaped: objects such as `a b` cannot be copied.",
            shown=only_plain_names_are_copied,
        ),
        "a range that begins beyond it is refused": Departure(
            says="s3torchconnector reads like a file: beyond its end there is nothing, and no error.",
            shown=nothing_lies_beyond,
        ),
    }
    errors: ClassVar = {
        "copy source": (S3Exception, "INVALID_PATH"),
        "missing": (S3Exception, "does not exist"),
        "no bucket": (S3Exception, "does not exist"),
        "name": (S3Exception, "400"),
    }

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.s3 = _made(place.s3_endpoint)

    def save(self, key: str, body: bytes) -> None:
        self.stream(key, [body])

    def load(self, key: str) -> bytes:
        return self.s3.get_object(self.bucket, key).read()

    def save_large(self, key: str, body: bytes) -> None:
        self.stream(key, [body])

    def stream(self, key: str, pieces: Iterable[bytes]) -> None:
        with self.s3.put_object(self.bucket, key) as writer:
            for piece in pieces:
                writer.write(piece)

    def abandon(self, key: str, body: bytes) -> None:
        writer = self.s3.put_object(self.bucket, key)
        writer.write(body)
        del writer  # There is no other way to give up.

    def size(self, key: str) -> int:
        return self.s3.head_object(self.bucket, key).size

    def delete(self, key: str) -> None:
        self.s3.delete_object(self.bucket, key)

    def load_range(self, key: str, start: int, stop: int) -> bytes:
        reader = self.s3.get_object(self.bucket, key)
        reader.seek(start)
        return reader.read(stop - start)

    def listing(self, prefix: str) -> list[tuple[str, int]]:
        pages = self.s3.list_objects(self.bucket, prefix)
        return [(found.key, found.size) for page in pages for found in page.object_info]

    def list_folder(self, prefix: str) -> tuple[list[str], list[str]]:
        pages = list(self.s3.list_objects(self.bucket, prefix, delimiter="/"))
        names = [found.key for page in pages for found in page.object_info]
        return names, [found for page in pages for found in page.common_prefixes]

    def copy(self, source: str, target: str) -> None:
        self.s3.copy_object(self.bucket, source, self.bucket, target)

    def version(self, key: str) -> str:
        return self.s3.head_object(self.bucket, key).etag
