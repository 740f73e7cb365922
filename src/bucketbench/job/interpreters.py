"""The interpreter of a job: this one, or that of an environment whose packages clash with this one's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

from bucketbench.errors import PreflightError

__all__ = ["made_interpreter", "search_path_of"]

_ROOT: Final = Path(__file__).resolve().parents[3]
_SETUP: Final = Path("utils") / "setup_peer_env.sh"
_LINES_SHOWN: Final = 8  # of what a failed installation wrote: pip ends with its error


def made_interpreter(
    environment: str | None, *, client: str, say: Callable[[str], None], root: Path | None = None
) -> Path:
    """The Python that runs a client's jobs; its environment is made, or brought up to date, where that is needed.

    Two sweeps at once wait for one another; an environment that is there and up to date takes a moment.

    Args:
        environment: the client's ``environment``, such as ``dataflux``; None for this interpreter.
        client: name of the client, for messages.
        say: is given a line before what may take minutes.
        root: the repository, or a folder that ``bucketbench init`` made.

    Raises:
        PreflightError: there is no such environment, or it could not be made; the message says how to make it.
    """
    if environment is None:
        return Path(sys.executable)
    needs = f"the client {client} needs an environment of its own, {environment}"
    if root is None:
        root = _ROOT if (_ROOT / _SETUP).is_file() else Path.cwd()
    setup = root / _SETUP
    if not setup.is_file():
        raise PreflightError(
            f"{needs}, which {_SETUP} makes, and this directory has no such script: run bucketbench in a folder that "
            f"`bucketbench init` made, or leave {client} out of client=…"
        )
    known = sorted(path.stem.removeprefix("constraints-") for path in root.glob("constraints-*.txt"))
    if environment not in known:
        raise PreflightError(
            f"{needs}, and there is no constraints-{environment}.txt: correct client.environment (there are "
            f"{', '.join(known) or 'none'})"
        )
    python = root / f".venv-{environment}" / "bin" / "python"
    if not python.exists():
        say(f"making the environment of {client}, .venv-{environment} (a minute or two, once)")
    failure = _made(setup, environment)
    if failure is not None:
        raise PreflightError(
            f"{needs}, and making it failed: {failure}. Mend that and run ./{_SETUP} {environment}, or leave {client} "
            "out of client=…"
        )
    return python


@lru_cache(maxsize=16)  # asked for once a sweep and once a job
def _made(setup: Path, environment: str) -> str | None:
    """Run the script; what it wrote where it failed."""
    done = subprocess.run(
        [str(setup), environment], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return None
    return " ".join(line.strip() for line in (done.stdout + done.stderr).splitlines()[-_LINES_SHOWN:])


@lru_cache(maxsize=16)
def search_path_of(python: Path) -> tuple[str, ...]:
    """Where an interpreter looks for modules, this one's own ``sys.path`` for this one.

    Raises:
        PreflightError: it does not run.
    """
    if python == Path(sys.executable):
        return tuple(sys.path)
    try:
        done = subprocess.run(
            [str(python), "-c", "import json, sys; print(json.dumps(sys.path[1:]))"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise PreflightError(
            f"the interpreter {python} does not run ({error}): remove {python.parents[1]} and run the same again"
        ) from error
    return tuple(json.loads(done.stdout))
