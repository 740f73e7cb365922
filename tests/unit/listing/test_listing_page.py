"""The page on listings: its examples run in their order, and its bound is the code's."""

from __future__ import annotations

import re
from pathlib import Path

from torchbucket.listing import parallel

PAGE = Path(__file__).resolve().parents[3] / "docs" / "listing.md"


def test_every_example_runs():
    text = PAGE.read_text(encoding="utf-8")
    examples = list(re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert len(examples) == 3
    names: dict[str, object] = {"__name__": "listing_page"}
    for example in examples:
        # Blank lines in front make a failure point into the page.
        line = text[: example.start()].count("\n") + 1
        exec(compile("\n" * line + example[1], str(PAGE), "exec"), names)


def test_the_bound_is_that_of_the_code():
    stated = re.search(r"`n \+ n // 16 \+ (\d+)`", PAGE.read_text(encoding="utf-8"))
    assert stated is not None
    assert int(stated[1]) == parallel.EXTRA_REQUESTS + 16 + 1
