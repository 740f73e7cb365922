"""Every command and example of the page on data sets runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bucketbench.cli import main

PAGE = (Path(__file__).parents[3] / "docs" / "datagen.md").read_text()
COMMANDS = re.findall(r"```shell\n(.*?)\n```", PAGE, flags=re.DOTALL)
EXAMPLES = re.findall(r"```python\n(.*?)\n```", PAGE, flags=re.DOTALL)


def test_the_page_has_what_this_test_runs() -> None:
    assert (len(COMMANDS), len(EXAMPLES)) == (3, 1)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    program, *arguments = shlex.split(command.replace("/tmp/datasets", str(tmp_path / "datasets")))
    assert program == "bucketbench"
    assert main(arguments) == 0
    assert list(tmp_path.glob("datasets/*.manifest.jsonl"))


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(example.replace("/tmp/datasets", str(tmp_path / "datasets")))
    finished = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout) == (0, f"200 {200 * (50 << 10)} 000000000.jpg\n"), finished.stderr
