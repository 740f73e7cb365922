"""The measured process: ``python -m bucketbench.worker JOB_DIRECTORY`` runs one job in a fresh interpreter.

It reads ``job.json`` and writes ``operations.jsonl`` and ``usage.jsonl`` (raw records), ``progress.json`` (how far it
is) and, at the end, ``outcome.json``:

- ``status``: ``ok`` or ``failed``, and ``reason``, null when ok;
- ``verification``: what was compared and found (`bucketbench.scenarios.verification`), or null where nothing was
  measured;
- ``server``: what the testbed counted meanwhile (`bucketbench.statistics.ServerCounts`), or null;
- ``details``: how it was measured, by the scenario, and how memory was counted;
- ``versions``: of Python and the packages that the job requires;
- ``records``: how many lines each file of raw records has, of a job that came to its end;
- ``ranks``: how many the job has.

It exits with status 0 whenever it could write the outcome. A job without an outcome has crashed. With
``--end-with-parent`` it ends when the process that started it does: its standard input is a pipe whose other end only
that process holds.

Where torchrun starts several of them, each is a rank and leaves its files in ``ranks/RANK``. One that failed then exits
with status 1, upon which torchrun ends the others, which would wait for it; all but the first wait a little before they
do, since the first one removes what was saved. Where they are on several machines, each
leaves ``clock.json`` as well: what is to be added to the times of its records to have those of rank 0's clock.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bucketbench.imports import imported
from bucketbench.job.description import CLOCK_FILE, OUTCOME_FILE, Description, rank_directory
from bucketbench.provenance.versions import versions_of
from bucketbench.ranks import Ranks
from bucketbench.reasons import reason_of

if TYPE_CHECKING:
    from bucketbench.scenarios.recording import MeasuredScenario

__all__ = ["main", "outcome_of"]

_REMOVAL_S = 30.0  # what rank 0 gets to remove a checkpoint of a thousand files; it notices at once that another failed


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job in the directory that is the only argument.

    Returns:
        0 when the outcome was written, whether the job succeeded or failed; 1 for one rank of several that failed.
    """
    parser = argparse.ArgumentParser(prog="python -m bucketbench.worker", description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="directory with job.json; the results go there")
    parser.add_argument(
        "--end-with-parent", action="store_true", help="kill this process group when standard input is closed"
    )
    arguments = parser.parse_args(argv)
    job_directory: Path = arguments.directory
    ranks = Ranks.from_environment()
    directory = rank_directory(job_directory, rank=ranks.rank, world_size=ranks.world_size)
    directory.mkdir(parents=True, exist_ok=True)
    if arguments.end_with_parent:
        _end_with_parent()
    # ``run_job`` asks with SIGUSR1 where a job that takes too long is stuck: the answer goes to benchmark.log.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    outcome = outcome_of(Description.read(job_directory), directory, ranks)
    _write(outcome, directory)
    if ranks.world_size == 1 or outcome["status"] == "ok":
        return 0
    if not ranks.is_first:
        time.sleep(_REMOVAL_S)  # it ends as soon as rank 0 has ended
    return 1


def outcome_of(description: Description, directory: Path, ranks: Ranks) -> dict[str, Any]:
    """Measure in this process, leave the raw records in a directory, and return what ``outcome.json`` is to say.

    Args:
        description: of the job.
        directory: the rank's own, which exists.
        ranks: which of the job's ranks this process is.
    """
    outcome: dict[str, Any] = {
        "status": "failed",
        "reason": None,
        "verification": None,
        "server": None,
        "details": {},
        "ranks": ranks.world_size,
    }
    try:
        # Imported here, so that a broken installation is a failed job with a reason and not a crash without one.
        recording = importlib.import_module("bucketbench.scenarios.recording")
        sys.path.extend(directory for directory in description.search_path if directory not in sys.path)
        measure: MeasuredScenario = imported(description.measurement)
        backend = str(description.job.get("backend", "gloo"))
        with (
            recording.Recorder(directory, rank=ranks.rank, sees_others=ranks.local_rank == 0) as recorder,
            ranks.joined(backend),
        ):
            if ranks.nodes > 1:
                offset_s, within_s = ranks.clock_offset_s()
                (directory / CLOCK_FILE).write_text(json.dumps({"offset_s": offset_s, "within_s": within_s}))
            with _told_before_leaving(outcome, directory, ranks):
                found = measure(description.job, recorder, ranks)
            outcome["details"] = {**found.details, "memory_kind": recorder.memory_kind}
        outcome["records"] = recorder.written
        outcome["verification"] = asdict(found.verification)
        outcome["server"] = None if found.server is None else asdict(found.server)
        outcome["reason"] = found.verification.failure
        outcome["status"] = "ok" if outcome["reason"] is None else "failed"
    except BaseException as error:  # noqa: BLE001 - a job's end is an outcome, whatever the client raised
        outcome["reason"] = reason_of(error)
        with contextlib.suppress(OSError):  # the log may be what found no room
            traceback.print_exc()
    outcome["versions"] = versions_of(description.requires)
    return outcome


@contextlib.contextmanager
def _told_before_leaving(outcome: Mapping[str, Any], directory: Path, ranks: Ranks) -> Iterator[None]:
    """A block at whose failure the outcome says why before the other ranks notice that this one has gone.

    They fail by that, and as soon as one has ended, torchrun ends this one.
    """
    try:
        yield
    except BaseException as error:
        if ranks.world_size > 1:
            with contextlib.suppress(OSError):  # the outcome that follows is refused as well, and tells
                _write({**outcome, "reason": reason_of(error), "versions": {}}, directory)
        raise


def _write(outcome: Mapping[str, Any], directory: Path) -> None:
    unfinished = directory / f".{OUTCOME_FILE}"
    unfinished.write_text(json.dumps(outcome, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(directory / OUTCOME_FILE)


def _end_with_parent() -> None:
    """End this process and its workers as soon as the process that started it is gone, however it went."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Nothing that is left could change the result, and a client's thread that never ends must not keep the job waiting.
    os._exit(status)
