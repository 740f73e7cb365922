"""obstore over S3 and over GCS's XML API, with its defaults and no retry, so that a refusal is told at once."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import obstore
import obstore.exceptions
import pytest
from client_shape import PART_BYTES, Bench, Client, Departure, Described, Place
from obstore.store import GCSStore, S3Store
from throwaway_key import service_account


def _options(ca_certificate: Path | None) -> dict[str, Any]:
    if ca_certificate is None:
        return {"allow_http": True}
    return {"root_certificate": ca_certificate.read_bytes()}


def prefix_is_a_folder(bench: Bench) -> None:
    for name in ("logs/20250627_a", "logs/20250628"):
        bench.wire.put(name, b"x")
    assert bench.client.listing("logs/20250627") == []
    assert bench.client.listing("logs") == [("logs/20250627_a", 1), ("logs/20250628", 1)]


def segments_are_refused(*names: str) -> Callable[[Bench], None]:
    def shown(bench: Bench) -> None:
        for name in names:
            bench.wire.put(name, b"there")
            with bench.client.refusal("path"):
                bench.client.load(name)
            with bench.client.refusal("path"):
                bench.client.save(name, b"new")
            with bench.client.refusal("path"):
                bench.client.listing("odd")
            bench.wire.ask("DELETE", name)

    return shown


def marker_is_listed_without_its_slash(bench: Bench) -> None:
    bench.wire.put("folder/marker/", b"")
    assert bench.client.listing("folder") == [("folder/marker", 0)]
    bench.client.save("saved/", b"x")
    assert bench.wire.names("saved") == ["saved"]


def leading_slash_is_dropped(bench: Bench) -> None:
    bench.client.save("/a", b"body")
    assert bench.wire.names() == ["a"]
    bench.wire.put("/a", b"other")
    assert bench.client.load("/a") == b"body"
    assert bench.client.listing("") == [("a", 5), ("a", 4)]


class _Obstore(Client):
    """What both of obstore's stores have in common."""

    lacks: ClassVar = {
        "compose": "obstore does not compose",
        "save_mislabelled": "obstore takes no checksum from its caller",
        "digests": "obstore shows the ETag as it is, and no digest",
    }
    departs: ClassVar = {
        "a prefix is plain text": Departure(
            says="obstore takes a prefix for whole path segments: `logs/20250627` lists nothing where "
            "`logs/20250627_a` exists.",
            shown=prefix_is_a_folder,
        ),
        "names: `//`": Departure(
            says="obstore refuses names with an empty, `.` or `..` segment, and every listing that meets one.",
            shown=segments_are_refused("odd//name"),
        ),
        "names: `.` and `..` segments": Departure(
            says="obstore refuses names with an empty, `.` or `..` segment, and every listing that meets one.",
            shown=segments_are_refused("odd/./name", "odd/../name"),
        ),
        "names: leading `/`": Departure(
            says="obstore drops a leading `/`: `/a` is saved, loaded and listed as `a`.", shown=leading_slash_is_dropped
        ),
        "names: trailing `/`": Departure(
            says="obstore drops a trailing `/`: it saves `saved/` as `saved` and lists `marker/` as `marker`.",
            shown=marker_is_listed_without_its_slash,
        ),
    }
    errors: ClassVar = {
        "missing": (FileNotFoundError, ""),
        "no bucket": (FileNotFoundError, ""),
        "range": (obstore.exceptions.GenericError, "416|[Rr]ange"),
        "exists": (obstore.exceptions.AlreadyExistsError, ""),
        "condition": (obstore.exceptions.PreconditionError, ""),
        "name": (obstore.exceptions.BaseError, "400"),
        "path": (Exception, "path segment|illegal character sequence"),
        "certificate": (obstore.exceptions.GenericError, "certificate|UnknownIssuer"),
    }
    store: S3Store | GCSStore

    def save(self, key: str, body: bytes) -> None:
        obstore.put(self.store, key, body, use_multipart=False)

    def load(self, key: str) -> bytes:
        return bytes(obstore.get(self.store, key).bytes())

    def save_large(self, key: str, body: bytes) -> None:
        obstore.put(self.store, key, body, use_multipart=True, chunk_size=PART_BYTES)

    def stream(self, key: str, pieces: Iterable[bytes]) -> None:
        with obstore.open_writer(self.store, key, buffer_size=PART_BYTES) as writer:
            for piece in pieces:
                writer.write(piece)

    def abandon(self, key: str, body: bytes) -> None:
        def pieces() -> Iterator[bytes]:
            yield body[:PART_BYTES]
            yield body[PART_BYTES:]
            raise ValueError("no more")

        with pytest.raises(Exception, match="no more"):  # Its type is not documented.
            obstore.put(self.store, key, pieces(), use_multipart=True, chunk_size=PART_BYTES)

    def size(self, key: str) -> int:
        return obstore.head(self.store, key)["size"]

    def delete(self, key: str) -> None:
        obstore.delete(self.store, key)

    def delete_many(self, keys: Sequence[str]) -> None:
        obstore.delete(self.store, list(keys))

    def load_range(self, key: str, start: int, stop: int) -> bytes:
        return bytes(obstore.get_range(self.store, key, start=start, end=stop))

    def load_tail(self, key: str, length_bytes: int) -> bytes:
        return bytes(obstore.get(self.store, key, options={"range": {"suffix": length_bytes}}).bytes())

    def listing(self, prefix: str) -> list[tuple[str, int]]:
        return [(found["path"], found["size"]) for page in obstore.list(self.store, prefix) for found in page]

    def list_folder(self, prefix: str) -> tuple[list[str], list[str]]:
        found = obstore.list_with_delimiter(self.store, prefix or None)
        # obstore shows common prefixes without their last slash.
        return [name["path"] for name in found["objects"]], [f"{name}/" for name in found["common_prefixes"]]

    def list_after(self, name: str) -> list[str]:
        return [found["path"] for page in obstore.list(self.store, offset=name) for found in page]

    def copy(self, source: str, target: str) -> None:
        obstore.copy(self.store, source, target)

    def move(self, source: str, target: str) -> None:
        obstore.rename(self.store, source, target)

    def create(self, key: str, body: bytes) -> None:
        obstore.put(self.store, key, body, mode="create")

    def save_described(self, key: str, body: bytes, described: Described) -> None:
        attributes = {"Content-Type": described.content_type, **described.metadata}
        obstore.put(self.store, key, body, use_multipart=False, attributes=attributes)

    def described(self, key: str) -> Described:
        attributes = dict(obstore.get(self.store, key).attributes)
        return Described(content_type=str(attributes.pop("Content-Type")), metadata=attributes)

    def load_version(self, key: str, version: str) -> bytes:
        return bytes(obstore.get(self.store, key, options={"if_match": version}).bytes())

    def signed_get(self, key: str) -> str:
        return obstore.sign(self.store, "GET", key, timedelta(minutes=5))

    def signed_put(self, key: str) -> str:
        return obstore.sign(self.store, "PUT", key, timedelta(minutes=5))


@functools.lru_cache(maxsize=256)
def _s3_store(place: Place) -> S3Store:
    return S3Store(
        place.bucket,
        endpoint=place.s3_endpoint,
        region="us-east-1",
        access_key_id="key",
        secret_access_key="secret",
        virtual_hosted_style_request=False,
        client_options=_options(place.ca_certificate),
        retry_config={"max_retries": 0},
    )


class ObstoreS3(_Obstore):
    name = "obstore S3"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.store = _s3_store(place)

    def version(self, key: str) -> str:
        return str(obstore.head(self.store, key)["e_tag"])

    def replace(self, key: str, body: bytes, version: str) -> None:
        obstore.put(self.store, key, body, mode={"e_tag": version})


@functools.lru_cache(maxsize=256)
def _gcs_store(place: Place, *, signing: bool) -> GCSStore:
    credentials: dict[str, Any] = {"service_account_key": json.dumps(service_account())}
    if not signing:
        credentials = {"credential_provider": lambda: {"token": "any", "expires_at": None}}
    return GCSStore(
        place.bucket,
        base_url=place.gcs_endpoint,
        client_options=_options(place.ca_certificate),
        retry_config={"max_retries": 0},
        **credentials,
    )


class ObstoreGcs(_Obstore):
    name = "obstore GCS"
    errors: ClassVar = {**_Obstore.errors, "delete missing": (FileNotFoundError, "")}

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._place = place
        self.store = _gcs_store(place, signing=False)

    def version(self, key: str) -> str:
        """Returns the ETag, which reads ask for, and the generation, which writes ask for."""
        found = obstore.head(self.store, key)
        return f"{found['e_tag']} {found['version']}"

    def replace(self, key: str, body: bytes, version: str) -> None:
        obstore.put(self.store, key, body, mode={"version": version.split()[1]})

    def load_version(self, key: str, version: str) -> bytes:
        return super().load_version(key, version.split()[0])

    def signed_get(self, key: str) -> str:
        return obstore.sign(_gcs_store(self._place, signing=True), "GET", key, timedelta(minutes=5))

    def signed_put(self, key: str) -> str:
        return obstore.sign(_gcs_store(self._place, signing=True), "PUT", key, timedelta(minutes=5))
