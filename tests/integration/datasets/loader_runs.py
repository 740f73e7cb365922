"""Runs a program that loads data, with a limit that turns a hang into a failure."""

from __future__ import annotations

import json
from pathlib import Path

import forked_programs

COUNT = 23
EXPECTED = [[f"train/{index:03}", index * 1000] for index in range(COUNT)]


def fill(store) -> None:
    """Write the objects that ``EXPECTED`` lists."""
    for key, size in EXPECTED:
        store.write(key, b"x" * size)


def run(scenario: str, method: str, *arguments: str, program: str = "loader_program.py"):
    """What the program printed; fails where it does not end well or not at all."""
    done = forked_programs.run(Path(__file__).with_name(program), scenario, method, *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
