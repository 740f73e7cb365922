"""Runs the measured process of a job, or its ranks: fresh interpreters, a time limit, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from bucketbench.job.description import HARNESS_VARIABLE, JOB_VARIABLE, LOG_FILE, PROGRESS_FILE, rank_directories

__all__ = ["NodeShare", "ProcessEnd", "run_measured_process"]

_PROGRESS_S: Final = 1.0  # the measured process leaves word no more often
_DUMP_S: Final = 0.2  # what a process that is stuck gets to write where it is; it takes a millisecond
_DUMPED_PROCESSES: Final = 10  # the workers of a job do the same work, so that more would tell nothing new
_REAP_S: Final = 10.0  # a killed process is gone in milliseconds, unless the kernel holds it in an I/O call
_ORPHAN_S: Final = 20.0  # what an orphan gets to tidy up; removing composed objects is the longest, 15 s at most
_POLL_S: Final = 0.02
_TRACKER: Final = "multiprocessing.resource_tracker"  # in the command line of one
_JOIN_S: Final = 120  # the nodes have said that they are about to start it


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeShare:
    """One node's share of a job whose ranks run on several.

    Args:
        index: of the node; rank 0 is on node 0.
        count: of all nodes, each with as many ranks as the others.
        endpoint: host and port on node 0 by which the job's ranks find one another.
        job_id: the job's, the same on all nodes.
    """

    index: int
    count: int
    endpoint: str
    job_id: str

    @property
    def rendezvous(self) -> list[str]:
        """What torchrun is told of the others. The nodes are numbered already, so that it has nothing to find out."""
        return [
            f"--nnodes={self.count}",
            f"--node-rank={self.index}",
            "--rdzv-backend=static",
            f"--rdzv-endpoint={self.endpoint}",
            f"--rdzv-id={self.job_id}",
            f"--rdzv-conf=timeout={_JOIN_S}",
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessEnd:
    """How the measured process ended.

    Args:
        returncode: its exit status, the negative of a signal's number.
        timed_out: whether it was killed for the time limit.
        wall_s: seconds from its start to its end.
        given_up: why it was killed before, None where it was not.
    """

    returncode: int
    timed_out: bool
    wall_s: float
    given_up: str | None = None

    @property
    def ok(self) -> bool:
        """Whether every rank has ended by itself, and well."""
        return self.returncode == 0 and not self.timed_out and self.given_up is None

    @property
    def reason(self) -> str:
        """In words why the process ended, for a job that left no outcome."""
        if self.given_up is not None:
            return self.given_up
        if self.timed_out:
            return (
                f"killed after {self.wall_s:.0f} s, the job's time limit (time_limit_s); "
                f"{LOG_FILE} shows where it was stuck"
            )
        if self.returncode < 0:
            try:
                name = signal.Signals(-self.returncode).name
            except ValueError:
                name = f"signal {-self.returncode}"
            hint = ", as the kernel does when memory runs out" if name == "SIGKILL" else ""
            return f"the measured process was ended by {name}{hint}; see {LOG_FILE}"
        return f"the measured process exited with status {self.returncode} and left no outcome; see {LOG_FILE}"


def run_measured_process(
    directory: Path,
    *,
    ranks: int,
    python: Path,
    environment: Mapping[str, str],
    time_limit_s: float,
    on_progress: Callable[[dict[str, Any]], None],
    share: NodeShare | None = None,
    helpers: Sequence[int] = (),
    given_up: Callable[[], str | None] = lambda: None,
) -> ProcessEnd:
    """Run the job in ``directory`` and wait for its end.

    The process leads a session of its own, and whatever of that session, or of the process's descendants, is left at
    its end is killed. So is what it has started otherwise: torchrun's ranks lead sessions of their own, and their
    workers are nobody's children once the rank is gone. Its output goes to the end of ``benchmark.log``.

    Args:
        directory: with ``job.json``.
        ranks: how many processes the job has; torchrun starts them where it is more than one.
        python: the interpreter, which has bucketbench and the client's packages.
        environment: all of the process's environment.
        time_limit_s: seconds after which it is killed.
        on_progress: called every now and then with the newest progress.
        share: this node's of the ranks, where they run on several.
        helpers: ids of processes of the harness besides this one, such as the testbed: what they use is not taken for
            another's load.
        given_up: called as often; what it returns is why the process is to be killed.

    Raises:
        KeyboardInterrupt: as it arrives; the process is gone then.
    """
    # What is killed leaves its temporary files, such as multiprocessing's sockets, whose paths must be short.
    with tempfile.TemporaryDirectory(prefix="bucketbench-", ignore_cleanup_errors=True) as temporary:
        return _run(
            directory,
            _launch(python, ranks, share),
            environment={**environment, "TMPDIR": temporary},
            time_limit_s=time_limit_s,
            on_progress=on_progress,
            helpers=helpers,
            given_up=given_up,
        )


def _run(
    directory: Path,
    launch: list[str],
    *,
    environment: Mapping[str, str],
    time_limit_s: float,
    on_progress: Callable[[dict[str, Any]], None],
    helpers: Sequence[int],
    given_up: Callable[[], str | None],
) -> ProcessEnd:
    started_s = time.monotonic()
    job_id = uuid.uuid4().hex
    with (directory / LOG_FILE).open("ab") as log:
        process = subprocess.Popen(
            [*launch, "--end-with-parent", str(directory)],
            stdin=subprocess.PIPE,  # held open, never written to: its end tells the process that we are gone
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**environment, JOB_VARIABLE: job_id, HARNESS_VARIABLE: " ".join(map(str, (os.getpid(), *helpers)))},
            start_new_session=True,
        )
    timed_out, reason = False, None
    try:
        while process.poll() is None and (reason := given_up()) is None:
            elapsed_s = time.monotonic() - started_s
            if elapsed_s > time_limit_s:
                timed_out = True
                _ask_where(process)
                break
            _show_progress(directory, on_progress)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=min(_PROGRESS_S, max(time_limit_s - elapsed_s, 0.001)))
    finally:
        _end(process)
        if process.stdin is not None:
            process.stdin.close()  # before the orphans are waited for: some end by it
        wall_s = time.monotonic() - started_s
        _end_orphans(job_id)
    return ProcessEnd(returncode=process.returncode, timed_out=timed_out, wall_s=wall_s, given_up=reason)


def _launch(python: Path, ranks: int, share: NodeShare | None) -> list[str]:
    if ranks == 1:
        return [str(python), "-m", "bucketbench.worker"]
    # On one machine a rendezvous of its own on a free port: two jobs at once do not meet.
    nodes, rendezvous = (1, ["--standalone"]) if share is None else (share.count, share.rendezvous)
    torchrun = [str(python), "-m", "torch.distributed.run", *rendezvous, f"--nproc-per-node={ranks // nodes}"]
    return [*torchrun, "--module", "bucketbench.worker"]


def _show_progress(directory: Path, on_progress: Callable[[dict[str, Any]], None]) -> None:
    try:
        word = json.loads((rank_directories(directory)[0] / PROGRESS_FILE).read_bytes())
    except (OSError, ValueError):
        return  # not there yet
    on_progress(word)


def _ask_where(process: subprocess.Popen[bytes]) -> None:
    """Have the process and its workers write where they are into the log.

    faulthandler is registered for the signal in the measured process, and so in workers forked from it. Any other
    process it would end, and the measured one might write that as its failure before it is killed itself. They are
    asked one by one: they write to the same file.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        leader = psutil.Process(process.pid)
        members = [leader, *leader.children(recursive=True)]
        for member in [one for one in members if _catches(one.pid, signal.SIGUSR1)][:_DUMPED_PROCESSES]:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.send_signal(signal.SIGUSR1)
            time.sleep(_DUMP_S)


def _catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal.

    *Source*: SigCgt of proc_pid_status(5).
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process, its session and its descendants, and wait for it.

    Resource trackers of multiprocessing are left: they remove what the others leave in shared memory, the semaphores of
    workers that were not forked, and end by themselves.
    """
    descendants: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        # A client may have started a session of its own; its processes are still found by their parents.
        descendants = psutil.Process(process.pid).children(recursive=True)
    process.kill()  # first, so that it starts nothing more
    until_s = time.monotonic() + _REAP_S
    while (found := _without_trackers([*descendants, *_group(process.pid)])) and time.monotonic() < until_s:
        for one in found:
            with contextlib.suppress(psutil.Error):
                one.kill()
        time.sleep(_POLL_S)
    process.wait(timeout=_REAP_S)


def _group(leader: int) -> list[psutil.Process]:
    """The processes of a group. It outlives its leader as long as anyone is in it, and nobody else can be."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getpgid(pid) == leader:
                found.append(psutil.Process(pid))
    return found


def _without_trackers(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those of some processes that run, and are no resource trackers."""
    found = []
    for one in processes:
        with contextlib.suppress(psutil.Error):
            command = one.cmdline()  # a process that has ended has none
            if command and not any(_TRACKER in word for word in command):
                found.append(one)
    return found


def _end_orphans(job_id: str) -> None:
    """End whatever else the job has started, and wait for it.

    Orphans are asked first, since one may have to unmount a directory or to remove temporary objects. Their children
    are not, unless they outlive them: rclone, say, is ended by the process that unmounts.
    """
    kill_s = time.monotonic() + _ORPHAN_S
    asked: set[psutil.Process] = set()
    while (found := _processes_of(job_id)) and time.monotonic() < kill_s + _REAP_S:
        pids = {process.pid for process in found}
        for process in found:
            with contextlib.suppress(psutil.Error):
                if time.monotonic() > kill_s:
                    process.kill()
                elif process not in asked and process.ppid() not in pids:
                    asked.add(process)
                    process.terminate()
        time.sleep(_POLL_S)


def _processes_of(job_id: str) -> list[psutil.Process]:
    """The processes with the job's environment, wherever they hang; a process that has ended has none any more."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(JOB_VARIABLE) == job_id:
                found.append(process)
    return found
