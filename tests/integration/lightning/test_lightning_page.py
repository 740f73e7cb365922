"""The page about Lightning: its examples run."""

from __future__ import annotations

import re
from pathlib import Path

from torchbucket.fsspec import unregister

PAGE = Path(__file__).parents[3] / "docs" / "lightning.md"


def test_the_examples_run(tmp_path):
    text = PAGE.read_text(encoding="utf-8").replace("/tmp/torchbucket-run-2", f"{tmp_path}/run-2")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, object] = {"__name__": "lightning_page"}
    try:
        exec(compile("\n".join(blocks), str(PAGE), "exec"), names)
    finally:
        unregister()
    assert names["trainer"].ckpt_path.endswith("last.ckpt")
