"""Which of Lightning's packages is meant, and that the other one works by itself."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from forked_programs import run

from torchbucket.lightning import package

PROGRAM = Path(__file__).with_name("other_package_program.py")


@pytest.mark.nightly  # It needs a process with the other package.
def test_the_other_package_trains_and_resumes(tmp_path):
    ended = run(PROGRAM, tmp_path, imports=("pytorch_lightning",))
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "last.ckpt").exists()


@pytest.mark.parametrize(
    ("loaded", "installed", "meant"),
    [
        (["lightning", "lightning_fabric"], [], "lightning.pytorch"),
        (["lightning_fabric"], ["lightning", "lightning_fabric"], "pytorch_lightning"),
        ([], ["lightning", "lightning_fabric"], "lightning.pytorch"),
        ([], ["lightning_fabric"], "pytorch_lightning"),
    ],
)
def test_the_one_that_the_program_uses_is_meant(monkeypatch, loaded, installed, meant):
    monkeypatch.setattr(sys, "modules", dict.fromkeys(loaded))
    monkeypatch.setattr(package, "find_spec", lambda name: importlib.util if name in installed else None)
    monkeypatch.setattr(package, "import_module", lambda name: name)
    assert package.pytorch("callbacks") == f"{meant}.callbacks"


def test_without_either_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(sys, "modules", {})
    monkeypatch.setattr(package, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"torchbucket\[lightning\]"):
        package.fabric("plugins")
