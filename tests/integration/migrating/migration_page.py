"""The pairs of examples on the page about migrating."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGE", "Pair", "pairs"]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "migrating.md"

_PAIR = re.compile(
    r"^<!-- pair: (?P<name>[\w-]+) -->\n```python\n(?P<theirs>.*?)^```\n\n```python\n(?P<ours>.*?)^```",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The same work in another library and in torchbucket; each leaves ``samples``."""

    name: str
    theirs: str
    ours: str


def pairs(provider: str) -> list[Pair]:
    """The page's pairs of one provider, ``s3`` or ``gcs``."""
    found = [Pair(**match.groupdict()) for match in _PAIR.finditer(PAGE.read_text(encoding="utf-8"))]
    return [pair for pair in found if pair.name.startswith(f"{provider}-")]
