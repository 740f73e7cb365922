"""The distribution: every dependency is pinned, and the testbed runs on its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


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


def test_the_testbed_runs_on_what_its_extra_names_alone() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["testbed"]
    allowed = {_normal(re.split(r"[<>=]", entry, maxsplit=1)[0]) for entry in extra}
    for name in allowed.copy():  # What these bring is named by their own metadata.
        allowed |= {_normal(re.split(r"[\[<>=;!~( ]", entry, maxsplit=1)[0]) for entry in metadata.requires(name) or ()}
    program = (
        "import importlib, json, pkgutil, sys, buckettestbed\n"
        "for found in pkgutil.walk_packages(buckettestbed.__path__, 'buckettestbed.'):\n"
        "    if not found.name.endswith('__main__'): importlib.import_module(found.name)\n"
        "buckettestbed.presets.load_network('none')\n"  # imports what reads YAML
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    imported = set(json.loads(done.stdout))
    assert imported & {"torch", "numpy", "hydra", "omegaconf", "torchbucket", "bucketbench"} == set()
    owners = metadata.packages_distributions()
    brought = {_normal(owner) for name in imported for owner in owners.get(name, ())}
    assert brought - allowed - {"cffi", "torchbucket"} == set()  # cffi is cryptography's on every platform but PyPy.
    assert {"uvicorn", "trustme", "pyyaml"} <= brought


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
