"""The import contracts name every module that they are about, also those added later."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import bucketbench

ROOT = Path(__file__).resolve().parents[3]
IMPORTLINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
CONTRACTS = {contract["name"]: contract for contract in IMPORTLINTER["contracts"]}
PARTS = {f"bucketbench.{module.name}" for module in pkgutil.iter_modules(bucketbench.__path__)}


def test_the_harness_contract_covers_every_part_but_adapters_and_datagen() -> None:
    contract = CONTRACTS["the harness reaches torchbucket only from its adapters and the data generator"]
    assert PARTS - {"bucketbench.clients", "bucketbench.datagen", "buckettestbed"} == set(contract["source_modules"])


def test_the_contract_on_circles_covers_every_package() -> None:
    packages = {found.parent.name for found in (ROOT / "src").glob("*/__init__.py")}
    assert {"torchbucket", "bucketbench", "buckettestbed"} <= packages == set(IMPORTLINTER["root_packages"])
    assert CONTRACTS["no module imports itself by way of others"].keys() == {"name", "type"}  # and nothing is ignored


def test_the_contract_on_circles_sees_imports_in_functions_and_for_types(tmp_path: Path) -> None:
    package = tmp_path / "ring"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "first.py").write_text("from ring import second\n")
    (package / "second.py").write_text("def use():\n    from ring import third\n")
    third = package / "third.py"
    third.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ring import first\n")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_packages = ["ring"]\n'
        'contract_types = ["no_circles: utils.import_circles.NoImportCircles"]\n'
        '[[tool.importlinter.contracts]]\nname = "no circles"\ntype = "no_circles"\n'
    )

    def checked() -> subprocess.CompletedProcess[str]:
        program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
        command = [sys.executable, "-c", program, "--no-cache"]
        environment = {"PYTHONPATH": f"{ROOT}:{tmp_path}", "NO_COLOR": "1", "COLUMNS": "200"}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    broken = checked()
    assert broken.returncode == 1
    assert all(f"ring.{name}" in broken.stdout for name in ("first", "second", "third")), broken.stdout
    third.write_text("")
    assert checked().returncode == 0, checked().stdout


def test_statistics_know_no_other_part_but_the_errors() -> None:
    contract = CONTRACTS["statistics and records do no I/O and know no other layer"]
    others = PARTS - set(contract["source_modules"]) - {"bucketbench.errors"}
    assert others <= set(contract["forbidden_modules"])


def test_the_library_has_no_threads_that_fail_or_abort_at_an_exit() -> None:
    """Its own pools take work until the end, and for its own daemons an exit waits a little."""
    wrong = re.compile(r"\bThreadPoolExecutor\(|daemon=True")
    found = {path.name for path in (ROOT / "src/torchbucket").rglob("*.py") if wrong.search(path.read_text())}
    assert found == {"daemon_thread.py"}
