#!/usr/bin/env python3
"""Make or refresh the repository's virtual environment `.venv` from `constraints.txt`; standard library only.

It does nothing when the environment already matches `pyproject.toml` and `constraints.txt`. Two calls at once are safe:
the second waits for the first.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
STAMP = ENVIRONMENT / "installed.sha256"
INPUTS = (ROOT / "pyproject.toml", ROOT / "constraints.txt")


def main() -> int:
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = hashlib.sha256(b"\0".join(path.read_bytes() for path in INPUTS)).hexdigest()
        if STAMP.exists() and STAMP.read_text() == wanted:
            return 0
        try:
            install(wanted)
        except subprocess.CalledProcessError as error:
            say(f"installing failed with exit status {error.returncode}: {' '.join(map(str, error.cmd))}")
            say("mend what pip reports above, then run the same command again")
            return 2
    return 0


def install(wanted: str) -> None:
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists() or not works(python):
        say(f"creating {ENVIRONMENT.name} with Python {sys.version.split()[0]}")
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        try:
            venv.create(ENVIRONMENT, with_pip=True)
        except subprocess.CalledProcessError:
            say("this Python cannot make virtual environments (on Debian and Ubuntu: install python3-venv)")
            raise
    STAMP.unlink(missing_ok=True)
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--constraint", "constraints.txt"]
    # torch goes first and alone: where it is installed already, no later step considers another build of it.
    say("installing torch")
    run([*pip, "torch"])
    say("installing torchbucket, bucketbench, the clients under comparison and the test tools (a minute or two)")
    run([*pip, "--editable", ".[dev]"])
    STAMP.write_text(wanted)


def works(python: Path) -> bool:
    return subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0


def run(command: list[object]) -> None:
    # An active virtual environment of the caller must not leak into this one.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH")
    }
    subprocess.run([str(part) for part in command], cwd=ROOT, check=True, env=environment)


def say(message: str) -> None:
    print(f"environment: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
