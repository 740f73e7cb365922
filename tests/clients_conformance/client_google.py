"""google-cloud-storage three ways: small uploads in one request, resumable sessions, and its transfer manager.

Anonymous, so that nothing asks for tokens; without retry, so that a refusal is told at once.
"""

from __future__ import annotations

import base64
import functools
import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import google.api_core.exceptions
import google_crc32c
import requests.exceptions
from client_shape import PART_BYTES, Bench, Client, Departure, Described, Place
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.storage import transfer_manager
from google.oauth2.service_account import Credentials
from throwaway_key import service_account


@functools.lru_cache(maxsize=4)
def _made(endpoint: str, ca_certificate: Path | None) -> storage.Client:
    client = storage.Client(
        project="project", credentials=AnonymousCredentials(), client_options={"api_endpoint": endpoint}
    )
    if ca_certificate is not None:
        client._http.verify = str(ca_certificate)  # There is no public way to a session's authority.
    return client


class _Google(Client):
    """What the three ways have in common: everything but how bytes are sent and fetched."""

    starts_at_name = True
    lacks: ClassVar = {}
    errors: ClassVar = {
        "missing": (google.api_core.exceptions.NotFound, ""),
        "no bucket": (google.api_core.exceptions.NotFound, ""),
        "delete missing": (google.api_core.exceptions.NotFound, ""),
        "range": (google.api_core.exceptions.RequestRangeNotSatisfiable, ""),
        "exists": (google.api_core.exceptions.PreconditionFailed, ""),
        "condition": (google.api_core.exceptions.PreconditionFailed, ""),
        "checksum": (google.api_core.exceptions.BadRequest, "(?i)crc32c"),
        "name": (google.api_core.exceptions.BadRequest, "1024|1,024"),
        "certificate": (requests.exceptions.SSLError, "CERTIFICATE_VERIFY_FAILED"),
    }

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.endpoint = place.gcs_endpoint
        self.client = _made(place.gcs_endpoint, place.ca_certificate)
        self.target = self.client.bucket(place.bucket)

    def blob(self, key: str) -> storage.Blob:
        return self.target.blob(key)

    def save(self, key: str, body: bytes) -> None:
        self.blob(key).upload_from_string(body, content_type="application/octet-stream", retry=None)

    def load(self, key: str) -> bytes:
        return self.blob(key).download_as_bytes(retry=None)

    def size(self, key: str) -> int:
        blob = self.blob(key)
        blob.reload(retry=None)
        return blob.size

    def delete(self, key: str) -> None:
        self.blob(key).delete(retry=None)

    def delete_many(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), 100):
            with self.client.batch():
                for key in keys[start : start + 100]:
                    self.blob(key).delete()

    def load_range(self, key: str, start: int, stop: int) -> bytes:
        return self.blob(key).download_as_bytes(start=start, end=stop - 1, retry=None)

    def load_tail(self, key: str, length_bytes: int) -> bytes:
        return self.blob(key).download_as_bytes(start=-length_bytes, retry=None)

    def listing(self, prefix: str) -> list[tuple[str, int]]:
        return [(blob.name, blob.size) for blob in self.client.list_blobs(self.target, prefix=prefix)]

    def list_folder(self, prefix: str) -> tuple[list[str], list[str]]:
        found = self.client.list_blobs(self.target, prefix=prefix, delimiter="/")
        names = [blob.name for blob in found]
        return names, sorted(found.prefixes)

    def list_after(self, name: str) -> list[str]:
        return [blob.name for blob in self.client.list_blobs(self.target, start_offset=name)]

    def copy(self, source: str, target: str) -> None:
        self.target.copy_blob(self.blob(source), self.target, target)

    def move(self, source: str, target: str) -> None:
        self.target.rename_blob(self.blob(source), target)

    def compose(self, sources: Sequence[str], target: str) -> None:
        self.blob(target).compose([self.blob(source) for source in sources])

    def version(self, key: str) -> str:
        blob = self.blob(key)
        blob.reload(retry=None)
        return str(blob.generation)

    def load_version(self, key: str, version: str) -> bytes:
        return self.blob(key).download_as_bytes(if_generation_match=int(version), retry=None)

    def described(self, key: str) -> Described:
        blob = self.blob(key)
        blob.reload(retry=None)
        return Described(content_type=blob.content_type, metadata=blob.metadata)

    def digests(self, key: str) -> Mapping[str, str]:
        blob = self.blob(key)
        blob.reload(retry=None)
        told = {"md5": blob.md5_hash, "crc32c": blob.crc32c}
        return {name: value for name, value in told.items() if value is not None}

    def _signed(self, key: str, method: str) -> str:
        return self.blob(key).generate_signed_url(
            version="v4",
            expiration=timedelta(minutes=5),
            method=method,
            credentials=Credentials.from_service_account_info(service_account()),
            api_access_endpoint=self.endpoint,
        )

    def signed_get(self, key: str) -> str:
        return self._signed(key, "GET")

    def signed_put(self, key: str) -> str:
        return self._signed(key, "PUT")


class GoogleSimple(_Google):
    """Uploads in one multipart request."""

    name = "google simple"
    lacks: ClassVar = {
        "save_large": "see the columns of its resumable sessions and of its transfer manager",
        "stream": "see the column of its resumable sessions",
        "abandon": "an upload in one request cannot be given up half-way",
    }

    def create(self, key: str, body: bytes) -> None:
        self.blob(key).upload_from_string(body, if_generation_match=0, retry=None)

    def replace(self, key: str, body: bytes, version: str) -> None:
        self.blob(key).upload_from_string(body, if_generation_match=int(version), retry=None)

    def save_described(self, key: str, body: bytes, described: Described) -> None:
        blob = self.blob(key)
        blob.metadata = dict(described.metadata)
        blob.upload_from_string(body, content_type=described.content_type, retry=None)

    def save_mislabelled(self, key: str, body: bytes, labelled: bytes) -> None:
        blob = self.blob(key)
        blob.crc32c = _crc32c(labelled)
        blob.upload_from_string(body, checksum=None, retry=None)


def no_suffix_in_chunks(bench: Bench) -> None:
    bench.wire.put("object", b"body")
    with bench.client.refusal("suffix"):
        bench.client.load_tail("object", 2)


def session_stays_open(bench: Bench) -> None:
    bench.client.abandon("object", bytes(2 * PART_BYTES))
    assert bench.wire.names() == []
    assert [upload["kind"] for upload in bench.open_uploads()] == ["resumable"]


class GoogleResumable(_Google):
    """Uploads in chunks through a resumable session, small ones too; downloads in chunks."""

    name = "google resumable"
    departs: ClassVar = {
        "a range of the last n bytes": Departure(
            says="google-cloud-storage takes no suffix range where it reads in chunks.", shown=no_suffix_in_chunks
        ),
        "an upload given up leaves nothing": Departure(
            says="google-cloud-storage's `BlobWriter.terminate` asks to delete the address where sessions start: "
            "the session stays open.",
            shown=session_stays_open,
        ),
    }
    errors: ClassVar = {**_Google.errors, "suffix": (ValueError, "cannot be negative")}
    lacks: ClassVar = {}

    def blob(self, key: str) -> storage.Blob:
        return self.target.blob(key, chunk_size=PART_BYTES)

    def save(self, key: str, body: bytes, **options: Any) -> None:
        # A stream of unknown length is what makes the library open a session.
        self.blob(key).upload_from_file(
            io.BytesIO(body), content_type="application/octet-stream", retry=None, **options
        )

    def save_large(self, key: str, body: bytes) -> None:
        self.save(key, body)

    def stream(self, key: str, pieces: Iterable[bytes]) -> None:
        with self.blob(key).open("wb", content_type="application/octet-stream", retry=None) as writer:
            for piece in pieces:
                writer.write(piece)

    def abandon(self, key: str, body: bytes) -> None:
        writer = self.blob(key).open("wb", retry=None)
        writer.write(body)
        writer.terminate()

    def save_mislabelled(self, key: str, body: bytes, labelled: bytes) -> None:
        blob = self.blob(key)
        blob.crc32c = _crc32c(labelled)
        blob.upload_from_file(io.BytesIO(body), checksum=None, retry=None)

    def create(self, key: str, body: bytes) -> None:
        self.save(key, body, if_generation_match=0)

    def replace(self, key: str, body: bytes, version: str) -> None:
        self.save(key, body, if_generation_match=int(version))

    def save_described(self, key: str, body: bytes, described: Described) -> None:
        blob = self.blob(key)
        blob.metadata = dict(described.metadata)
        blob.upload_from_file(io.BytesIO(body), content_type=described.content_type, retry=None)


class GoogleTransferManager(_Google):
    """Many files at once, a file in chunks at once: downloads by ranges, uploads by the XML API's parts."""

    name = "google transfer manager"
    lacks: ClassVar = {
        "stream": "it uploads files",
        "abandon": "it cancels what failed, and takes no call to do so",
        "create": "its chunked uploads take no condition",
        "replace": "its chunked uploads take no condition",
        "save_mislabelled": "it computes the checksums itself",
    }

    def save(self, key: str, body: bytes) -> None:
        (outcome,) = transfer_manager.upload_many(
            [(io.BytesIO(body), self.blob(key))], worker_type=transfer_manager.THREAD, upload_kwargs={"retry": None}
        )
        _raise(outcome)

    def load(self, key: str) -> bytes:
        target = io.BytesIO()
        (outcome,) = transfer_manager.download_many(
            [(self.blob(key), target)], worker_type=transfer_manager.THREAD, download_kwargs={"retry": None}
        )
        _raise(outcome)
        return target.getvalue()

    def save_large(self, key: str, body: bytes) -> None:
        with _file(body) as path:
            transfer_manager.upload_chunks_concurrently(
                str(path), self.blob(key), chunk_size=PART_BYTES, worker_type=transfer_manager.THREAD, retry=None
            )

    def load_large(self, key: str) -> bytes:
        with _file(b"") as path:
            transfer_manager.download_chunks_concurrently(
                self.blob(key), str(path), chunk_size=PART_BYTES, worker_type=transfer_manager.THREAD
            )
            return path.read_bytes()

    def save_described(self, key: str, body: bytes, described: Described) -> None:
        blob = self.blob(key)
        blob.metadata = dict(described.metadata)
        with _file(body) as path:
            transfer_manager.upload_chunks_concurrently(
                str(path), blob, content_type=described.content_type, worker_type=transfer_manager.THREAD, retry=None
            )


def _crc32c(body: bytes) -> str:
    return base64.b64encode(google_crc32c.value(body).to_bytes(4, "big")).decode()


@contextmanager
def _file(body: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(body)
        yield path


def _raise(outcome: Any) -> None:
    if isinstance(outcome, Exception):
        raise outcome
