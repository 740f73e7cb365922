"""Names, version and schema of the result files, and how they are written: whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, cast

from bucketbench.errors import ResultsError

__all__ = [
    "JOB_RESULTS_FILE",
    "JOB_WAY_OUT",
    "RUN_RESULTS_FILE",
    "SCHEMA_VERSION",
    "check_schema_version",
    "job_directories",
    "read_job_results",
    "schema",
    "write_json",
    "write_whole",
]

SCHEMA_VERSION: Final = 3
"""Version of both files' format; it rises with any change that a reader of the old one could not take."""

JOB_RESULTS_FILE: Final = "job_results.json"
RUN_RESULTS_FILE: Final = "run_results.json"

JOB_WAY_OUT: Final = "move it away to do without that job, which bucketbench resume then runs again"
"""What to do about a job's results that cannot be read."""


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """Give a path to write to, and put the file in its place when it is written; a reader sees the old one or the new.

    Args:
        path: where the file shall be; its directory must be there.

    Raises:
        ResultsError: the file could not be written; what was at ``path`` before is still there.
    """
    if path.is_dir():
        raise ResultsError(f"{path} could not be written: it is a directory")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        raise ResultsError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # there is none, or no such directory
            unfinished.unlink()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a result file whole, as ``write_whole``.

    Raises:
        ResultsError: the file could not be written.
    """
    try:
        text = json.dumps(content, indent=2, allow_nan=False)
    except ValueError as error:
        raise ResultsError(f"{path} could not be written: {error}") from error
    with write_whole(path) as unfinished:
        unfinished.write_text(f"{text}\n", encoding="utf-8")


def check_schema_version(fields: Mapping[str, Any], file: Path) -> None:
    """Raise where the content of a result file is of no version that is read here.

    Raises:
        ResultsError: it has no version, or a newer one.
    """
    version = fields.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise ResultsError(f"{file} is no result of bucketbench: its schema_version is {version!r}, not a number")
    if version > SCHEMA_VERSION:
        raise ResultsError(
            f"{file} has schema version {version}, and this bucketbench reads up to {SCHEMA_VERSION}: update it"
        )


def job_directories(run_directory: Path, *names: str) -> list[Path]:
    """The directories of a run's jobs: those below it that have one of some files, each once.

    They may have any names and lie in one another, since ``hydra.sweep.subdir`` is the user's to choose. Each may be a
    link, to another disk for example; what lies deeper behind a link is not looked into, since that may be anything.

    Args:
        run_directory: the run's.
        names: of the files; that of the results where none are given.
    """
    wanted = names or (JOB_RESULTS_FILE,)
    found, linked = list[Path](), list[Path]()
    for folder, inside, _ in os.walk(run_directory):
        found += [Path(folder)] * _has_any(Path(folder), wanted)
        linked += [path for name in inside if (path := Path(folder, name)).is_symlink() and _has_any(path, wanted)]
    unlike = {(state.st_dev, state.st_ino): path for path in reversed([*found, *linked]) for state in (path.stat(),)}
    return sorted(unlike.values())


def _has_any(folder: Path, names: Iterable[str]) -> bool:
    return any((folder / name).is_file() for name in names)


def read_job_results(run_directory: Path) -> list[dict[str, Any]]:
    """The results of every job of a run that has any, in the order of the jobs' numbers.

    Raises:
        ResultsError: a file is damaged.
    """
    results = []
    for path in (directory / JOB_RESULTS_FILE for directory in job_directories(run_directory)):
        try:
            fields = json.loads(path.read_bytes())
            results.append((int(fields.get("number", 0)), fields))
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ResultsError(f"{path} cannot be read: {error} ({JOB_WAY_OUT})") from error
    return [fields for _, fields in sorted(results, key=lambda found: found[0])]


def schema(name: Literal["job_results", "run_results", "operation", "usage_sample"]) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a result file, or of a line of a file of raw records.

    Args:
        name: ``job_results`` and ``run_results`` of the files of these names, ``operation`` of a line of
            ``operations.jsonl``, ``usage_sample`` of a line of ``usage.jsonl``.
    """
    text = (resources.files("bucketbench.results") / "schema" / f"{name}.schema.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))
