"""The script that measures memory prints its table."""

from __future__ import annotations

from pathlib import Path

import forked_programs

SCRIPT = Path(__file__).resolve().parents[3] / "utils" / "measure_dataset_memory.py"


def test_a_small_table():
    arguments = ["--objects", "2000", "--workers", "2", "--start-method", "fork", "--only", "columns"]
    done = forked_programs.run(SCRIPT, *arguments)
    assert done.returncode == 0, done.stderr
    started, touched = (line.strip("|").split("|") for line in done.stdout.splitlines())
    assert [cell.strip() for cell in started[:2]] == ["torchbucket", "started"]
    assert touched[1].strip() == "touched"
    parent_rss, parent_pss = map(float, touched[2].split("/"))
    assert parent_rss >= parent_pss > 10
