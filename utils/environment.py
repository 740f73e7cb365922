#!/usr/bin/env python3
"""Make or refresh the repository's virtual environment `.venv` from `constraints.txt`; standard library only.

It does nothing when the environment already matches `pyproject.toml` and `constraints.txt`. Two calls at once are safe:
the second waits for the first. `peer_environment.py` makes other environments the same way.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Environment", "Step"]

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True)
class Step:
    """One call of pip: what is told about it, and what it installs."""

    says: str
    arguments: tuple[str, ...]


# The pip that Python brings took four times the processor time of a newer one for the steps that follow.
PIP = Step(says="pip", arguments=("pip",))
# torch goes first and alone: where it is installed already, no later step considers another build of it.
TORCH = Step(says="torch", arguments=("torch",))


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A virtual environment in the repository's root, and what it is made of.

    `constraints` pins every package; the environment is made anew where one of `inputs` changed.
    """

    folder: Path
    constraints: Path
    inputs: tuple[Path, ...]
    steps: tuple[Step, ...]

    def make(self) -> int:
        """Makes or refreshes it; returns the exit status, 2 where pip or venv failed."""
        with Path(f"{self.folder}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            wanted = hashlib.sha256(b"\0".join(path.read_bytes() for path in self.inputs)).hexdigest()
            if self._stamp.exists() and self._stamp.read_text() == wanted:
                return 0
            try:
                self._install(wanted)
            except subprocess.CalledProcessError as error:
                say(f"installing failed with exit status {error.returncode}: {' '.join(map(str, error.cmd))}")
                say("mend what pip reports above, then run the same command again")
                return 2
        return 0

    @property
    def _stamp(self) -> Path:
        return self.folder / "installed.sha256"

    def _install(self, wanted: str) -> None:
        python = self.folder / "bin" / "python"
        if not python.exists() or not works(python):
            say(f"creating {self.folder.name} with Python {sys.version.split()[0]}")
            shutil.rmtree(self.folder, ignore_errors=True)
            try:
                venv.create(self.folder, with_pip=True)
            except subprocess.CalledProcessError:
                say("this Python cannot make virtual environments (on Debian and Ubuntu: install python3-venv)")
                raise
        self._stamp.unlink(missing_ok=True)
        pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        # pip compiles modules one by one when it has installed all; here other processors do while the next step runs.
        options = ["--no-compile", "--constraint", self.constraints]
        with ThreadPoolExecutor(max_workers=1) as beside:
            for step in (PIP, *self.steps):
                say(f"installing {step.says}")
                run([*pip, *options, *step.arguments])
                beside.submit(compile_modules, python, self.folder / "lib")
        self._stamp.write_text(wanted)


def main() -> int:
    constraints = ROOT / "constraints.txt"
    whole = Step(
        says="torchbucket, bucketbench, the clients under comparison and the test tools (a minute or two)",
        arguments=("--editable", ".[dev]"),
    )
    return Environment(
        folder=ROOT / ".venv",
        constraints=constraints,
        inputs=(ROOT / "pyproject.toml", constraints),
        steps=(TORCH, whole),
    ).make()


def works(python: Path) -> bool:
    return subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0


def compile_modules(python: Path, folder: Path) -> None:
    """Compile what is not compiled yet, on all processors; what fails, such as a template, is nobody's to import."""
    # A fifth of all modules are the models that transformers has, of which one is used.
    run([python, "-m", "compileall", "-qq", "-j", "0", "-x", r"transformers[/\\]models[/\\]", folder], check=False)


def run(command: list[object], *, check: bool = True) -> None:
    # An active virtual environment of the caller must not leak into this one.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH")
    }
    subprocess.run([str(part) for part in command], cwd=ROOT, check=check, env=environment)


def say(message: str) -> None:
    print(f"environment: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
