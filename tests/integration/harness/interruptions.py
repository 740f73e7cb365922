"""A sweep that is ended at five moments, as Ctrl-C in a terminal ends it: how long that takes, and what is left.

``python tests/integration/harness/interruptions.py`` prints a table; the tests of interruptions use the same code.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

_SHARED_MEMORY: Final = Path("/dev/shm")
_LIMIT_S: Final = 300.0
_SETTLE_S: Final = 10.0  # a killed process's files may outlive it by a moment
_POLL_S: Final = 0.002

_SMALL: Final = [
    "dataset", "network=none", "client=torchbucket-map,boto3", "repeat=range(2)", "epochs=1", "data.sample_size=4KiB",
    "data.num_samples=64", "dataloader.batch_size=4", "warmup_samples=4",
]  # fmt: skip

_LONG: Final = ["data.num_samples=20000", "network.first_byte_s=0.05"]


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When a sweep is ended.

    Args:
        name: in words.
        overrides: what makes the moment last.
        reached: whether it is there, by the sweep's process and the directory that it runs in.
    """

    name: str
    overrides: tuple[str, ...] = ()
    reached: Callable[[psutil.Process, Path], bool]


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What came of it.

    Args:
        moment: its name.
        status: of the sweep's process.
        took_s: from the signal to the end of the process.
        left: temporary files, names in shared memory and command lines of processes that are still there.
        err: what the sweep wrote.
        run: its directory, None where there is none.
    """

    moment: str
    status: int
    took_s: float
    left: tuple[str, ...]
    err: str
    run: Path | None


def _runs(place: Path) -> list[Path]:
    return sorted(place.glob("multirun/dataset/*"))


def _serving(process: psutil.Process, place: Path) -> bool:
    """A testbed was started, and has not announced itself: its interpreter is still importing."""
    del place
    with suppress(psutil.Error):
        return any("buckettestbed" in child.cmdline() for child in process.children())
    return False


def _making(process: psutil.Process, place: Path) -> bool:
    """Processes that make images are at work, and some are there."""
    del process
    return sum(1 for _ in place.glob(".bucketbench/testbed-1/**/*")) > 200


def _measuring(process: psutil.Process, place: Path) -> bool:
    del process
    return any(place.glob("multirun/dataset/*/1/progress.json"))


def _between(process: psutil.Process, place: Path) -> bool:
    """The first job's results are written, and the second has not begun."""
    del process
    return any(place.glob("multirun/dataset/*/0/job_results.json"))


def _reporting(process: psutil.Process, place: Path) -> bool:
    """The sweep's last results are written, which comes right before its table and page."""
    del process
    found = place.glob("multirun/dataset/*/run_results.json")
    return any(b'"ended_at": "2' in path.read_bytes()[:600] for path in found)


MOMENTS: Final = {
    "testbed": Moment(name="while the testbed starts", reached=_serving),
    "data": Moment(name="while data are made", overrides=tuple(_LONG), reached=_making),
    "job": Moment(name="during a measured job", overrides=("network.first_byte_s=0.2",), reached=_measuring),
    "between": Moment(name="between two jobs", reached=_between),
    "report": Moment(name="while the report is written", overrides=("repeat=0",), reached=_reporting),
}


def end_at(
    moment: Moment, place: Path, *, number: signal.Signals = signal.SIGINT, again_after_s: float | None = None
) -> Ended:
    """Start a sweep in an empty directory and end it.

    Args:
        moment: when.
        place: the directory; ``tmp`` below it is where temporary files go.
        number: the signal, sent to the sweep's process group, as a terminal does.
        again_after_s: seconds after which it is sent once more.
    """
    temporary = place / "tmp"
    temporary.mkdir()
    marker = f"interrupted-in-{place}"
    before = {path.name for path in _SHARED_MEMORY.iterdir()}
    process = subprocess.Popen(
        [sys.executable, "-m", "bucketbench.cli", "run", *_SMALL, *moment.overrides],
        cwd=place,
        env={**os.environ, "TMPDIR": str(temporary), "BUCKETBENCH_TEST_MARKER": marker},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        _wait_for(lambda: moment.reached(psutil.Process(process.pid), place), process)
        started_s = time.monotonic()
        os.killpg(process.pid, number)
        if again_after_s is not None:
            time.sleep(again_after_s)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        err, _ = process.communicate(timeout=_LIMIT_S)
        took_s = time.monotonic() - started_s
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    runs = _runs(place)
    return Ended(
        moment=moment.name,
        status=process.returncode,
        took_s=took_s,
        left=_left(temporary, place, marker, before),
        err=err,
        run=runs[-1] if runs else None,
    )


def _wait_for(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    until_s = time.monotonic() + _LIMIT_S
    while not reached():
        if process.poll() is not None or time.monotonic() > until_s:
            raise AssertionError(f"the moment never came; the sweep wrote: {process.communicate()[0]}")
        time.sleep(_POLL_S)


def _left(temporary: Path, place: Path, marker: str, before: set[str]) -> tuple[str, ...]:
    """What is left, looked for until nothing is, or for some seconds."""
    until_s = time.monotonic() + _SETTLE_S
    while True:
        files = [str(path.relative_to(temporary)) for path in temporary.rglob("*")]
        files += [str(path.relative_to(place)) for path in place.glob("multirun/**/.*.[0-9]*")]
        files += [str(path.relative_to(place)) for path in place.glob("multirun/*/*/.running")]
        processes = _processes(marker)
        left = (*files, *_shared(before), *processes)
        if not left or time.monotonic() > until_s:
            return left
        time.sleep(0.1)


def _shared(before: set[str]) -> list[str]:
    """Names in shared memory that have come, and that no process of another program has mapped or open."""
    new = [path.name for path in _SHARED_MEMORY.iterdir() if path.name not in before]
    if not new:
        return []
    used = set()
    for process in psutil.process_iter():
        with suppress(OSError):
            used |= {line.rpartition("/dev/shm/")[2].rstrip() for line in _mapped(process.pid)}
    return [f"/dev/shm/{name}" for name in new if name not in used]


def _mapped(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/maps").read_text().splitlines()


def _processes(marker: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("BUCKETBENCH_TEST_MARKER") == marker and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
    return found


def main() -> int:
    """Print how long each took, and what it left."""
    cases = [(moment, signal.SIGINT, None) for moment in MOMENTS.values()]
    cases += [(MOMENTS["job"], signal.SIGTERM, None), (MOMENTS["job"], signal.SIGHUP, None)]
    cases += [(MOMENTS["job"], signal.SIGINT, 0.5)]
    for moment, number, again_after_s in cases:
        with tempfile.TemporaryDirectory() as place:
            ended = end_at(moment, Path(place), number=number, again_after_s=again_after_s)
        twice = "" if again_after_s is None else " twice"
        left = "; ".join(ended.left) or "nothing"
        print(f"{number.name}{twice} {ended.moment}: status {ended.status} after {ended.took_s:.1f} s, left {left}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
