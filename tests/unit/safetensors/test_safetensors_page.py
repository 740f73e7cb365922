"""The page on safetensors: its examples run, in their order, and what it shows of the command is what that prints."""

from __future__ import annotations

import re
from pathlib import Path

from torchbucket.cli import main

PAGE = Path(__file__).parents[3] / "docs" / "safetensors.md"


def test_the_examples_run(capsys) -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {"__name__": "safetensors_page"})
    shown = re.search(r"^\$ torchbucket inspect s3://models/large/\n(.*?)^…", text, re.MULTILINE | re.DOTALL)
    assert main(["inspect", "memory://models/large/"]) == 0
    printed = capsys.readouterr().out
    assert without_names(shown[1]) == without_names(printed)[: len(without_names(shown[1]))]


def without_names(text: str) -> list[str]:
    """Lines without what differs: the scheme, and the part of the files' names that is drawn."""
    return re.sub(r"model-[0-9a-f]{8}", "model-", text.replace("s3://", "memory://")).splitlines()
