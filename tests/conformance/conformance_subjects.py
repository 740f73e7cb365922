"""The stores under the conformance suite, and what each of them cannot do."""

from __future__ import annotations

import http.client
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from torchbucket.config import MIB, StoreConfig
from torchbucket.store import Store, open_store

PART_BYTES = 5 * MIB
PAGE = 100

_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A store that is empty, and its declared capabilities."""

    name: str
    store: Store
    any_name: bool  # every key that S3 allows
    newlines: bool  # also those with a line feed
    shows_uploads: bool  # a write in progress is listed


def config_for(endpoint: str, **fields: object) -> StoreConfig:
    settings: dict[str, object] = {
        "endpoint": endpoint,
        "region": "us-east-1",
        "part_size_bytes": PART_BYTES,
        "memory_budget_bytes": 4 * PART_BYTES,
        "list_page_size": PAGE,
    }
    return StoreConfig(**{**settings, **fields})  # type: ignore[arg-type]  # by name


def new_bucket(endpoint: str) -> str:
    """Create a bucket with a name of its own, by a bare request: no client stands between server and test."""
    name = f"conformance-{next(_numbers)}"
    parts = urlsplit(endpoint)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    connection.request("PUT", f"/{name}", headers={"Host": parts.netloc})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200, answer.status
    return name


@contextmanager
def subject(kind: str, directory: Path, endpoint: str | None) -> Iterator[Subject]:
    if endpoint is not None:
        store = open_store(f"s3://{new_bucket(endpoint)}", config_for(endpoint))
        # moto's URL patterns do not match a line feed.
        made = Subject(name=kind, store=store, any_name=True, newlines=kind != "s3-moto", shows_uploads=True)
    elif kind == "memory":
        store = open_store(f"memory://conformance-{next(_numbers)}")
        made = Subject(name=kind, store=store, any_name=True, newlines=True, shows_uploads=False)
    else:
        root = directory / "root"
        root.mkdir()
        made = Subject(
            name=kind,
            store=open_store(f"file://{root}"),
            any_name=False,
            newlines=True,
            shows_uploads=True,
        )
    try:
        yield made
    finally:
        made.store.close()
