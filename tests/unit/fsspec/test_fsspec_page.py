"""The examples of the page on fsspec run, in their order."""

from __future__ import annotations

import re
from pathlib import Path

import fsspec

from torchbucket.fsspec import unregister

PAGE = Path(__file__).parents[3] / "docs" / "fsspec.md"


def test_the_examples_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    before = fsspec.get_filesystem_class("s3")
    try:
        exec(compile("\n".join(blocks), str(PAGE), "exec"), {"__name__": "fsspec_page"})
    finally:
        unregister()
    assert fsspec.get_filesystem_class("s3") is before
