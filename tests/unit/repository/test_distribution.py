"""The distribution: what importing it costs, and that every dependency is pinned."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "heavy", ["lightning", "pytorch_lightning", "transformers", "boto3", "hydra", "obstore", "s3torchconnector"]
)
def test_importing_torchbucket_does_not_import(heavy: str) -> None:
    program = f"import sys, torchbucket; torchbucket.MapDataset; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    named = {_normal(re.split(r"[\[<>=;! ]", entry, maxsplit=1)[0]) for entries in lists for entry in entries}
    pinned = {
        _normal(line.split("==")[0])
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    assert named - pinned - {"torchbucket"} == set()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
