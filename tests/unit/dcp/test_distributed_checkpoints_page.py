"""The page about distributed checkpoints: its examples run."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "distributed_checkpoints.md"


def test_the_examples_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is")
        exec(compile("\n".join(blocks), str(PAGE), "exec"), {})
