"""What a measured process has started is gone when it is over, whoever its parent is and whatever session it is in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from bucketbench.job import process as process_module
from bucketbench.job.description import HARNESS_VARIABLE, LOG_FILE, PROGRESS_FILE
from bucketbench.job.process import ProcessEnd, run_measured_process

pytestmark = pytest.mark.timeout(120)

# It takes the interpreter's place, and so that of torchrun. What it starts is an orphan in a session of its own, as the
# workers of a rank are once the rank has ended, and a child of that in one more session.
PROGRAM = """#!{python}
import os, signal, sys, time
from pathlib import Path

directory = Path(sys.argv[-1])
(directory / "harness").write_text(os.environ[{harness!r}])
ready, tell = os.pipe()

def stay(name, handler):
    signal.signal(signal.SIGTERM, handler)
    (directory / name).write_text(str(os.getpid()))
    os.write(tell, b".")
    while True:
        signal.pause()

def note(number, frame):
    (directory / "child-asked").touch()

def tidy(number, frame):
    time.sleep(0.1)  # as unmounting takes a while
    os.kill(child, signal.SIGKILL)
    (directory / "tidied").touch()
    os._exit(0)

if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    child = os.fork()
    if child == 0:
        os.setsid()
        stay("child", note)
    stay("orphan", {asked})
for _ in range(2):
    os.read(ready, 1)
{end}
"""


def run(directory: Path, *, end: str, asked: str, time_limit_s: float = 100) -> ProcessEnd:
    program = directory / "python"
    program.write_text(PROGRAM.format(python=sys.executable, harness=HARNESS_VARIABLE, end=end, asked=asked))
    program.chmod(0o755)

    def interrupt(word: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    return run_measured_process(
        directory, ranks=2, python=program, environment={"LANG": "C"}, time_limit_s=time_limit_s,
        on_progress=interrupt, helpers=[4321],
    )  # fmt: skip


def running(directory: Path) -> list[psutil.Process]:
    """Which of the processes that were started have not ended."""
    found = []
    for name in ("orphan", "child", "worker"):
        with suppress(psutil.Error, FileNotFoundError):  # not every job starts a worker
            process = psutil.Process(int((directory / name).read_text()))
            if process.environ():  # a process that has ended has none
                found.append(process)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for process in running(tmp_path):
        process.kill()


@pytest.mark.parametrize("status", [0, 1])
def test_orphans_of_a_job_that_has_ended_are_asked_to_end(place: Path, status: int) -> None:
    run(place, end=f"os._exit({status})", asked="tidy")
    assert running(place) == []
    assert (place / "tidied").exists()
    assert (place / "harness").read_text() == f"{os.getpid()} 4321", "whose load is nobody else's"
    assert not (place / "child-asked").exists(), "its parent ends it"


def test_orphans_of_an_interrupted_job_are_asked_to_end(place: Path) -> None:
    # As the queues of workers that are not forked have it: who makes it removes it, or else its resource tracker.
    semaphore = "import multiprocessing\nlock = multiprocessing.get_context('spawn').Lock()"
    named = f"(directory / {PROGRESS_FILE!r}).write_text('{{}}')\n(directory / 'name').write_text(lock._semlock.name)"
    with pytest.raises(KeyboardInterrupt):
        run(place, end=f"{semaphore}\n{named}\nsignal.pause()", asked="tidy")
    shared = Path("/dev/shm", f"sem.{(place / 'name').read_text().strip('/')}")
    assert not shared.exists()
    assert running(place) == []
    assert (place / "tidied").exists()


def test_a_worker_of_a_killed_process_is_killed(place: Path) -> None:
    worker = 'if os.fork() == 0:\n    stay("worker", note)\nos.read(ready, 1)\n'
    end = run(place, end=f"{worker}os.kill(os.getpid(), signal.SIGKILL)", asked="tidy")
    assert "ended by SIGKILL" in end.reason
    assert running(place) == []
    assert (place / "worker").exists()


def test_an_orphan_that_does_not_end_is_killed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "_ORPHAN_S", 0.1)
    run(place, end="os._exit(1)", asked="signal.SIG_IGN")
    assert running(place) == []


def test_temporary_files_of_a_job_are_gone_with_it(place: Path) -> None:
    leave = "import tempfile\n(directory / 'temporary').write_text(tempfile.mkdtemp())\nos.kill(0, signal.SIGKILL)"
    run(place, end=leave, asked="tidy")
    temporary = Path((place / "temporary").read_text())
    assert not temporary.exists()
    assert not temporary.parent.exists()


def test_a_stuck_process_is_asked_where_and_what_a_client_has_started_does_not_end_by_that(place: Path) -> None:
    asked = "import faulthandler\nfaulthandler.register(signal.SIGUSR1)\n"
    waits = (
        'ended = os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn("/bin/sleep", ["sleep", "60"], {}), 0)[1])\n'
        '(directory / "failure").write_text(f"sleep: exit {ended}")\n'
    )
    end = run(place, end=f"{asked}{waits}", asked="tidy", time_limit_s=1.5)
    assert "time limit" in end.reason
    assert "Current thread" in (place / LOG_FILE).read_text()
    assert not (place / "failure").exists(), "which would pass for what was wrong"
