from __future__ import annotations

import itertools

import pytest

from torchbucket.store import open_store
from torchbucket.store.wrappers import MeteredStore

_numbers = itertools.count()


@pytest.fixture
def bucket() -> str:
    """The address of an empty bucket in memory."""
    return f"memory://safetensors-{next(_numbers)}"


@pytest.fixture
def metered(bucket: str, monkeypatch: pytest.MonkeyPatch) -> MeteredStore:
    """The bucket's store, which counts what is asked of it."""
    store = MeteredStore(open_store(bucket))
    for module in ("places", "saving"):
        monkeypatch.setattr(f"torchbucket.safetensors.{module}.shared_store", lambda location, config: store)
    return store
