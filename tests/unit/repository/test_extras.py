"""Every command names the extra that it lacks, and an extra brings what it is said to bring."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from bucketbench.cli import _COMMANDS, main
from bucketbench.extras import EXTRAS, missing_extra

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEPENDENCIES = PROJECT["dependencies"]
LISTED = PROJECT["optional-dependencies"]

# What is imported where it may be absent, with a message of its own or another way to go on.
OPTIONAL = {"fsspec", "google", "isal", "pynvml", "requests", "torch_checkpointing"}
# What comes with a package that a client requires, or is for type checkers.
BROUGHT = {"_typeshed", "aiohttp", "mypy_boto3_dynamodb", "s3transfer", "submitit"}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _named(entries: list[str]) -> set[str]:
    return {_normal(re.split(r"[\[<>=;! ]", entry, maxsplit=1)[0]) for entry in entries}


@cache
def _owners() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


def _distributions(module: str) -> set[str]:
    """Those that a dotted import name may be of."""
    found = _owners().get(module.partition(".")[0], ())
    return {_normal(name) for name in found}


def test_each_extra_lists_the_package_that_it_is_named_for() -> None:
    for module, extra in EXTRAS.items():
        listed = _named(LISTED[extra])
        assert listed & (_distributions(module) | {_normal(module)}), (module, extra)


def test_every_package_that_is_imported_is_always_there_or_has_its_extra() -> None:
    always = _named(DEPENDENCIES)
    imported = set()
    for path in (path for path in (ROOT / "src").rglob("*.py") if not path.is_symlink()):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                imported.add(node.module.partition(".")[0])
    own = {path.name for path in (ROOT / "src").iterdir()}
    others = {name for name in imported - own - sys.stdlib_module_names if not always & _distributions(name)}
    unknown = others - OPTIONAL - BROUGHT - {name.partition(".")[0] for name in EXTRAS}
    assert unknown == set()


def test_a_submodule_is_its_packages_and_a_module_of_nobody_is_told_as_it_is() -> None:
    told = missing_extra(ModuleNotFoundError("No module named 'hydra.core'", name="hydra.core"))
    assert told is not None
    assert "the package hydra, which is not installed: pip install 'torchbucket[bench]'" in told
    assert missing_extra(ModuleNotFoundError(name="google")) is None
    assert missing_extra(ModuleNotFoundError("nothing is known")) is None
    with pytest.raises(ModuleNotFoundError):
        _main_without("my_own_module")


def _main_without(name: str) -> int:
    """`main` where the first command's module needs one that is not there."""
    from unittest import mock

    with mock.patch("importlib.import_module", side_effect=ModuleNotFoundError(name=name)):
        return main(["report"])


WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT or name in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

ABSENT = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Absent())
import bucketbench.cli, buckettestbed.__main__
for words in sys.argv[2:]:
    program, *arguments = words.split()
    sys.argv = [program, *arguments]
    main = {"buckettestbed": buckettestbed.__main__.main, "torchbucket-datagen": bucketbench.cli.datagen}
    print("status", main.get(program, bucketbench.cli.main)(), flush=True)
"""


def test_every_command_of_a_bare_installation_says_in_one_line_what_to_install() -> None:
    """The packages of all extras are hidden from one process, in which each command is called."""
    absent = {name for name, extra in EXTRAS.items() if extra not in ("peers", "lightning")}
    commands = [f"bucketbench {name} x" for name in _COMMANDS if name != "init"]
    commands += ["bucketbench run dataset", "bucketbench -sc install=bash", "buckettestbed", "torchbucket-datagen"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, ",".join(absent), *commands], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["status", "2"] * len(commands)
    lines = done.stderr.splitlines()
    assert len(lines) == len(commands), done.stderr
    assert all(re.search(r"^bucket\w+: .*pip install 'torchbucket\[(bench|testbed)\]'$", line) for line in lines), lines


def test_the_readme_names_every_extra() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Install\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`([^`]+)`", " ".join(rows))) == set(LISTED) - {"dev", "docs"}
