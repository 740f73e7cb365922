"""The tests can be run as a shell's background job, whose SIGINT is ignored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
INSIDE = """
import signal, subprocess, sys

def test_what_a_test_starts_can_be_interrupted():
    program = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    assert subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL).returncode == -signal.SIGINT
"""


def test_an_ignored_sigint_is_not_handed_on_to_what_tests_start(tmp_path: Path) -> None:
    inside = tmp_path / "test_inside.py"
    inside.write_text(INSIDE)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-c",
            os.devnull,
            "-p",
            "conftest",
            "-p",
            "no:cacheprovider",
            str(inside),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
