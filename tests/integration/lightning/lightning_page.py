"""The examples of the page about Lightning."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["SHARDED", "blocks"]

SHARDED = "fully_shard"
"""What the example has that runs in a process of its own, since it leaves a process group behind."""


def blocks() -> list[str]:
    """All of them, in order."""
    page = Path(__file__).parents[3] / "docs" / "lightning.md"
    found: list[str] = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return found
