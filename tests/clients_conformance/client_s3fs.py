"""s3fs with its defaults, path-style, without its cache of listings: what the server says now is what is looked at."""

from __future__ import annotations

import base64
import functools
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import s3fs
from broken import published_truncated
from client_shape import PART_BYTES, Client, Described, Place


@functools.lru_cache(maxsize=4)
def _made(endpoint: str, ca_certificate: Path | None) -> Any:
    files = s3fs.S3FileSystem(
        key="key",
        secret="secret",
        client_kwargs={
            "endpoint_url": endpoint,
            "region_name": "us-east-1",
            **({"verify": str(ca_certificate)} if ca_certificate else {}),
        },
        config_kwargs={"s3": {"addressing_style": "path"}, "retries": {"total_max_attempts": 1}},
        skip_instance_cache=True,
        use_listings_cache=False,
    )
    files.retries = 1
    return files


class S3fs(Client):
    name = "s3fs"
    lacks: ClassVar = {
        "load_version": "s3fs reads by version id, not by ETag",
        "digests": "s3fs shows the ETag as it is, and no digest",
        "compose": "s3fs merges by copies of parts, each of 5 MiB or more",
        "list_after": "s3fs lists from the beginning",
    }
    departs: ClassVar = {"a writer's block that fails publishes nothing": published_truncated("s3fs")}
    errors: ClassVar = {
        "range": (OSError, r"\[Errno 22\]"),
        "condition": (OSError, "pre-conditions"),
        "checksum": (OSError, "did not match the calculated checksum"),
        "missing": (FileNotFoundError, ""),
        "no bucket": (FileNotFoundError, ""),
        "exists": (FileExistsError, ""),
        "name": (OSError, r"\[Errno 36\]"),
        "certificate": (Exception, "CERTIFICATE_VERIFY_FAILED|certificate"),
    }

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.files = _made(place.s3_endpoint, place.ca_certificate)

    def _path(self, key: str) -> str:
        return f"{self.bucket}/{key}"

    def _key(self, path: str) -> str:
        return path.removeprefix(f"{self.bucket}/")

    def save(self, key: str, body: bytes) -> None:
        self.files.pipe_file(self._path(key), body)

    def load(self, key: str) -> bytes:
        return self.files.cat_file(self._path(key))

    def save_large(self, key: str, body: bytes) -> None:
        self.stream(key, [body[start : start + PART_BYTES] for start in range(0, len(body), PART_BYTES)])

    def stream(self, key: str, pieces: Iterable[bytes]) -> None:
        with self.files.open(self._path(key), "wb", block_size=PART_BYTES) as file:
            for piece in pieces:
                file.write(piece)

    def abandon(self, key: str, body: bytes) -> None:
        file = self.files.open(self._path(key), "wb", block_size=PART_BYTES, autocommit=False)
        file.write(body)
        file.flush()
        file.discard()

    def size(self, key: str) -> int:
        return self.files.size(self._path(key))

    def delete(self, key: str) -> None:
        self.files.rm_file(self._path(key))

    def delete_many(self, keys: Sequence[str]) -> None:
        self.files.rm([self._path(key) for key in keys])

    def load_range(self, key: str, start: int, stop: int) -> bytes:
        return self.files.cat_file(self._path(key), start=start, end=stop)

    def load_tail(self, key: str, length_bytes: int) -> bytes:
        return self.files.cat_file(self._path(key), start=-length_bytes)

    def listing(self, prefix: str) -> list[tuple[str, int]]:
        folder, _, start = prefix.rpartition("/")
        found = self.files.find(self._path(folder), prefix=start, detail=True)
        return [(self._key(name), detail["size"]) for name, detail in found.items()]

    def list_folder(self, prefix: str) -> tuple[list[str], list[str]]:
        found = self.files.ls(self._path(prefix), detail=True)
        names = [self._key(entry["name"]) for entry in found if entry["type"] == "file"]
        return names, [self._key(entry["name"]) + "/" for entry in found if entry["type"] == "directory"]

    def copy(self, source: str, target: str) -> None:
        self.files.cp_file(self._path(source), self._path(target))

    def move(self, source: str, target: str) -> None:
        self.files.mv(self._path(source), self._path(target))

    def version(self, key: str) -> str:
        return self.files.info(self._path(key))["ETag"]

    def create(self, key: str, body: bytes) -> None:
        self.files.pipe_file(self._path(key), body, mode="create")

    def replace(self, key: str, body: bytes, version: str) -> None:
        self.files.pipe_file(self._path(key), body, IfMatch=version)

    def save_mislabelled(self, key: str, body: bytes, labelled: bytes) -> None:
        checksum = base64.b64encode(zlib.crc32(labelled).to_bytes(4, "big")).decode()
        self.files.pipe_file(self._path(key), body, ChecksumCRC32=checksum)

    def save_described(self, key: str, body: bytes, described: Described) -> None:
        self.files.pipe_file(
            self._path(key), body, ContentType=described.content_type, Metadata=dict(described.metadata)
        )

    def described(self, key: str) -> Described:
        found = self.files.info(self._path(key))
        return Described(content_type=found["ContentType"], metadata=self.files.metadata(self._path(key)))

    def signed_get(self, key: str) -> str:
        return self.files.sign(self._path(key))

    def signed_put(self, key: str) -> str:
        return self.files.url(self._path(key), client_method="put_object")
