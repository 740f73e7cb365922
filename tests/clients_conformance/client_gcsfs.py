"""gcsfs with its defaults, anonymous, without its cache of listings: what the server says now is what is looked at.

The class of gcsfs.core is the one without the probes over gRPC, which wait for a minute here.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import fsspec.asyn
from broken import published_truncated
from client_shape import PART_BYTES, Client, Described, Place
from gcsfs.core import GCSFileSystem
from google.oauth2.service_account import Credentials
from throwaway_key import service_account


async def _connector(ca_certificate: Path) -> aiohttp.TCPConnector:
    return aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(ca_certificate)))


@functools.lru_cache(maxsize=4)
def _made(endpoint: str, ca_certificate: Path | None) -> Any:
    session: dict[str, Any] = {}
    if ca_certificate is not None:  # A connector belongs to the loop on which gcsfs works.
        session["connector"] = fsspec.asyn.sync(fsspec.asyn.get_loop(), _connector, ca_certificate)
    return GCSFileSystem(
        project="project",
        token="anon",
        endpoint_url=endpoint,
        skip_instance_cache=True,
        use_listings_cache=False,
        session_kwargs=session,
    )


class Gcsfs(Client):
    name = "gcsfs"
    lacks: ClassVar = {
        "replace": "gcsfs has exclusive creation only",
        "load_version": "gcsfs reads generations only where they are in the path",
        "save_mislabelled": "gcsfs takes no checksum from its caller",
        "list_after": "gcsfs lists from the beginning",
        "signed_put": "gcsfs signs for reading",
    }
    departs: ClassVar = {"a writer's block that fails publishes nothing": published_truncated("gcsfs")}
    errors: ClassVar = {
        "missing": (FileNotFoundError, ""),
        "no bucket": (FileNotFoundError, ""),
        "delete missing": (FileNotFoundError, ""),
        "exists": (FileExistsError, ""),
        "range": (Exception, "416|range|Range"),
        "name": (Exception, "400|1,?024"),
        "certificate": (Exception, "CERTIFICATE_VERIFY_FAILED|certificate"),
    }

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.files = _made(place.gcs_endpoint, place.ca_certificate)

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
        folders = [self._key(entry["name"]) for entry in found if entry["type"] == "directory"]
        return names, [name.rstrip("/") + "/" for name in folders]

    def copy(self, source: str, target: str) -> None:
        self.files.cp_file(self._path(source), self._path(target))

    def move(self, source: str, target: str) -> None:
        self.files.mv(self._path(source), self._path(target))

    def compose(self, sources: Sequence[str], target: str) -> None:
        self.files.merge(self._path(target), [self._path(source) for source in sources])

    def version(self, key: str) -> str:
        return str(self.files.info(self._path(key))["generation"])

    def create(self, key: str, body: bytes) -> None:
        self.files.pipe_file(self._path(key), body, mode="create")

    def save_described(self, key: str, body: bytes, described: Described) -> None:
        self.files.pipe_file(
            self._path(key), body, content_type=described.content_type, metadata=dict(described.metadata)
        )

    def described(self, key: str) -> Described:
        found = self.files.info(self._path(key))
        return Described(content_type=found["contentType"], metadata=found["metadata"])

    def digests(self, key: str) -> Mapping[str, str]:
        found = self.files.info(self._path(key))
        return {"md5": found["md5Hash"], "crc32c": found["crc32c"]}

    def signed_get(self, key: str) -> str:
        self.files.credentials.credentials = Credentials.from_service_account_info(service_account())
        try:
            return self.files.sign(self._path(key), version="v4")
        finally:
            self.files.credentials.credentials = None
