"""The process that runs gcs-torch-dataflux in an environment of its own, made on the way if it is not there."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

__all__ = ["DatafluxError", "ask", "begin_setup", "end"]

_ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = Path(__file__).with_name("dataflux_program.py")


class DatafluxError(Exception):
    """What gcs-torch-dataflux raised: its type's name and its text."""


@functools.cache
def begin_setup() -> subprocess.Popen[str]:
    """Begins to make the environment, in the background; a moment where it is made already."""
    return subprocess.Popen(
        [str(_ROOT / "utils" / "setup_peer_env.sh"), "dataflux"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@functools.cache
def _program() -> subprocess.Popen[str]:
    setup = begin_setup()
    told, _ = setup.communicate()
    if setup.returncode != 0:
        raise AssertionError(f"utils/setup_peer_env.sh dataflux ended with {setup.returncode}:\n{told}")
    return subprocess.Popen(
        [str(_ROOT / ".venv-dataflux" / "bin" / "python"), str(_PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def ask(call: str, **arguments: Any) -> Any:
    """Returns what a function of the program returns; raises DatafluxError for what it raises."""
    program = _program()
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(json.dumps({"call": call, **arguments}) + "\n")
    program.stdin.flush()
    line = program.stdout.readline()
    if not line:
        raise AssertionError(f"{_PROGRAM.name} ended with {program.wait()} during {call}")
    answer = json.loads(line)
    if "error" in answer:
        raise DatafluxError(f"{answer['error']}: {answer['text']}")
    return answer["result"]


def end() -> None:
    """Ends what runs."""
    if _program.cache_info().currsize:
        program = _program()
        assert program.stdin is not None
        program.stdin.close()
        program.wait(30)
    if begin_setup.cache_info().currsize:
        begin_setup().wait()
