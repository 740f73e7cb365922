"""The kernel's cache of files is dropped by its switch, after what is not written yet was written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bucketbench.scenarios import kernel_cache


def test_pages_are_written_and_then_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switch, told = tmp_path / "drop_caches", list[str]()
    monkeypatch.setattr(kernel_cache, "_DROP_CACHES", switch)
    monkeypatch.setattr(os, "sync", lambda: told.append("nothing" if not switch.exists() else switch.read_text()))
    kernel_cache.clear_kernel_cache()
    assert (told, switch.read_text()) == (["nothing"], "1")
