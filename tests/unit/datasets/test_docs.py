"""The page on data sets: its examples run, in their order."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "datasets.md"


def test_every_example_runs():
    text = PAGE.read_text(encoding="utf-8")
    examples = list(re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert len(examples) >= 8
    names: dict[str, object] = {"__name__": "datasets_page"}
    for example in examples:
        line = text[: example.start()].count("\n") + 1
        # Blank lines in front make a failure point into the page.
        exec(compile("\n" * line + example[1], str(PAGE), "exec"), names)
