from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from bucketbench.datagen import dataset


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has samples made by threads, for tests of what is made: to start processes takes longer than all that they do."""
    monkeypatch.setattr(dataset, "ProcessPoolExecutor", lambda processes, *_: ThreadPoolExecutor(processes))
