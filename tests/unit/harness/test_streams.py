"""A command whose reader has gone does what it was asked for all the same, and says so by its exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from bucketbench.cli import main
for arguments in (["--help"], ["init", sys.argv[1]], ["report", "--help"]):
    assert main(arguments) == 0, arguments
sys.exit(main(["report", "/nonsense"]))
"""


def test_a_pipe_that_nobody_reads_and_an_output_that_is_closed(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        for name, end in (("pipe", {"stdout": writer}), ("closed", {"preexec_fn": lambda: os.close(1)})):
            made = tmp_path / name
            command = [sys.executable, "-c", PROGRAM, str(made)]
            done = subprocess.run(command, **end, stderr=subprocess.PIPE, text=True, check=False)  # type: ignore[call-overload]
            assert done.returncode == 2, done.stderr
            assert done.stderr.startswith("bucketbench report: there is no run at /nonsense")
            assert done.stderr.count("\n") == 1
            assert (made / "conf" / "dataset.yaml").is_file()
    finally:
        os.close(writer)


def test_a_full_disk_behind_standard_output_is_told_once(tmp_path: Path) -> None:
    # It prints by logging, which by itself tells of each line that fails with a traceback.
    program = "import sys; from bucketbench.cli import main; sys.exit(main(['run', 'dataset', '--info', 'defaults']))"
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "bucketbench: standard output: No space left on device\n")
