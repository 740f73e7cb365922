"""The pages on tar shards and on composing: their examples run, in their order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize(("name", "least"), [("tar.md", 6), ("compose.md", 2)])
def test_every_example_of_the_page_runs(name, least):
    page = DOCS / name
    text = page.read_text(encoding="utf-8")
    examples = list(re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert len(examples) >= least
    names: dict[str, object] = {"__name__": page.stem}
    for example in examples:
        line = text[: example.start()].count("\n") + 1
        # Blank lines in front make a failure point into the page.
        exec(compile("\n" * line + example[1], str(page), "exec"), names)
