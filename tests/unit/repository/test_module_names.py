"""No two modules of tests have one name: for pytest each folder is a root of imports, and it would leave one out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_every_name_is_of_one_module() -> None:
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
