"""The stores under the conformance suite, and what each of them, or the server behind it, cannot do."""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, urlsplit

from torchbucket.config import MIB, RetryConfig, StoreConfig
from torchbucket.store import ObjectInfo, Store, open_store
from torchbucket.store.wrappers import LimitedStore, MeteredStore, RateLimit, ThrottledStore

PART_BYTES = 5 * MIB
PAGE = 100

_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A store that is empty, and its declared capabilities.

    ``refuses`` says of a key why it cannot be, by a word of the error, or None. ``put`` writes a fixture, by the store
    where that can write.
    """

    name: str
    store: Store
    put: Callable[[str, bytes], ObjectInfo]
    refuses: Callable[[str], str | None] = lambda key: None
    newlines: bool = True  # names with a line feed get through to the server
    shows_uploads: bool = True  # a write in progress is listed
    writes: bool = True
    composes: bool = True
    conditions: frozenset[str] = frozenset({"version", "version in parts", "delete"})  # that the server checks
    pins: bool = True  # the server checks the versions of a copy's or a compose's sources


def refuses_segments(key: str) -> str | None:
    return "segment" if any(part in ("", ".", "..") for part in key.split("/")) else None


def refuses_dots_and_lines(key: str) -> str | None:
    return "dots" if key in (".", "..") else "line feed" if "\n" in key else None


def config_for(endpoint: str, **fields: object) -> StoreConfig:
    settings: dict[str, object] = {
        "endpoint": endpoint,
        "part_size_bytes": PART_BYTES,
        "memory_budget_bytes": 4 * PART_BYTES,
        "list_page_size": PAGE,
        # moto answers 500 for a part of an aborted upload, which is tried again as often as it may be.
        "retry": RetryConfig(initial_s=0.05, maximum_s=0.1),
    }
    return StoreConfig(**{**settings, **fields})  # type: ignore[arg-type]  # by name


def request(endpoint: str, method: str, path: str, body: bytes = b"") -> None:
    """A bare request: no client stands between server and test."""
    parts = urlsplit(endpoint)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    connection.request(method, path, body, {"Host": parts.netloc, "Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200, answer.status


def new_name() -> str:
    return f"conformance-{next(_numbers)}"


def s3_subject(kind: str, endpoint: str) -> Subject:
    bucket = new_name()
    request(endpoint, "PUT", f"/{bucket}")
    store = open_store(f"s3://{bucket}", config_for(endpoint, region="us-east-1"))
    if kind == "s3-testbed":
        return Subject(name=kind, store=store, put=store.write, composes=False)
    # moto's URL patterns do not match a line feed, and it ignores If-Match where an upload is completed.
    return Subject(
        name=kind,
        store=store,
        put=store.write,
        composes=False,
        newlines=False,
        conditions=frozenset({"version", "delete"}),
    )


def gs_subject(kind: str, endpoint: str) -> Subject:
    bucket = new_name()
    request(endpoint, "POST", "/storage/v1/b?project=test", json.dumps({"name": bucket}).encode())
    store = open_store(f"gs://{bucket}", config_for(endpoint))
    if kind == "gs-testbed":
        return Subject(name=kind, store=store, put=store.write, refuses=refuses_dots_and_lines)

    def plant(key: str, data: bytes) -> ObjectInfo:
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
        request(endpoint, "POST", path, data)
        return store.head(key)

    # fake-gcs-server reads by the XML API and does not write by it; it ignores every precondition.
    return Subject(
        name=kind,
        store=store,
        put=plant,
        refuses=refuses_dots_and_lines,
        writes=False,
        conditions=frozenset(),
        pins=False,
    )


# Rates that bind, and cost a suite little: a wrapper that never waits is not tested.
WRAPPERS: dict[str, Callable[[Store], Store]] = {
    "metered": MeteredStore,
    "limited": lambda store: LimitedStore(store, 2),
    "throttled": lambda store: ThrottledStore(store, RateLimit(operations_per_s=5000, bytes_per_s=1 << 30)),
    "all": lambda store: MeteredStore(LimitedStore(ThrottledStore(store, RateLimit(operations_per_s=5000)), 1)),
}


@contextmanager
def subject(name: str, directory: Path, endpoint: str | None) -> Iterator[Subject]:
    """The store of a name such as ``s3-testbed``, or of ``s3-testbed+limited`` in a wrapper."""
    kind, _, wrapper = name.partition("+")
    if endpoint is not None:
        made = (s3_subject if kind.startswith("s3-") else gs_subject)(kind, endpoint)
    elif kind == "memory":
        store = open_store(f"memory://{new_name()}")
        made = Subject(name=kind, store=store, put=store.write, shows_uploads=False)
    else:
        root = directory / "root"
        root.mkdir()
        store = open_store(f"file://{root}")
        made = Subject(name=kind, store=store, put=store.write, refuses=refuses_segments)
    if wrapper:
        store = WRAPPERS[wrapper](made.store)
        made = replace(made, name=name, store=store, put=store.write)
    try:
        yield made
    finally:
        made.store.close()
