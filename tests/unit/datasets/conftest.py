"""Data sets over a scripted store, through their public constructors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scripted_store import ScriptedStore

import torchbucket.datasets.listed
import torchbucket.datasets.source


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, bytes]], ScriptedStore]:
    """Make ``memory://scripted`` a scripted store with the bodies given."""

    def install(bodies: dict[str, bytes]) -> ScriptedStore:
        store = ScriptedStore(bodies)
        for module in (torchbucket.datasets.listed, torchbucket.datasets.source):
            monkeypatch.setattr(module, "shared_store", lambda uri, config: store)
        return store

    return install
