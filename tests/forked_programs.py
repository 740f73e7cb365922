"""Runs programs that import torch, each in a process of its own that is forked from one which has imported it.

An import of torch costs seconds of processor time, a fork of a process that has it some milliseconds. A program is run
as Python would run it: as `__main__`, with its arguments, environment, standard output and error; at its end it exits
as a program does. Processes that it starts by spawn, forkserver or its own path begin from nothing, as ever.

    ended = run(Path(__file__).with_name("program.py"), "argument")
    assert ended.returncode == 0, ended.stderr
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

__all__ = ["Ended", "Running", "run", "start"]

IMPORTS = (
    "torch.utils.data",
    "torchbucket",
    "torchbucket.datasets",
    "torchbucket.store",
    "torchbucket.store.s3.store",
    "botocore.session",
)
LIMIT_S = 110.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a program ended: its status, negative for a signal, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


class Running:
    """A program that was started, with a session and a process group of its own."""

    def __init__(self, server: _Server, pid: int, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self.pid = pid
        self.is_over = False
        self._server = server
        self._stdout = stdout
        self._stderr = stderr

    def said(self) -> tuple[str, str]:
        """What the program has printed so far: to standard output, and to standard error."""
        found = [os.pread(stream.fileno(), os.fstat(stream.fileno()).st_size, 0) for stream in self._streams()]
        return found[0].decode(), found[1].decode()

    def wait(self, limit_s: float = LIMIT_S) -> Ended:
        """Waits for the program's end, once; kills it with all its processes and fails where that takes too long."""
        _tell(self._server, {"wait": self.pid})
        in_time = bool(select.select([self._server.answers], [], [], limit_s)[0])
        if not in_time:
            os.killpg(self.pid, signal.SIGKILL)
        returncode = _answer(self._server)
        self.is_over = True
        stdout, stderr = self.said()
        for stream in self._streams():
            stream.close()
        assert in_time, f"the program did not end within {limit_s} s: {stdout}\n{stderr}"
        return Ended(returncode=returncode, stdout=stdout, stderr=stderr)

    def _streams(self) -> tuple[IO[bytes], IO[bytes]]:
        return self._stdout, self._stderr


def run(
    program: Path,
    *arguments: object,
    environment: Mapping[str, str] | None = None,
    imports: tuple[str, ...] = (),
    limit_s: float = LIMIT_S,
) -> Ended:
    """Runs a program to its end; `start` says what the arguments are."""
    return start(program, *arguments, environment=environment, imports=imports).wait(limit_s)


def start(
    program: Path, *arguments: object, environment: Mapping[str, str] | None = None, imports: tuple[str, ...] = ()
) -> Running:
    """Starts a program.

    Args:
        program: its file.
        arguments: as on its command line.
        environment: all of its environment, instead of this process's.
        imports: modules that it is to find imported, besides torch's loaders and torchbucket: among them
            `torch._dynamo` where it makes an optimizer or a DTensor, the first of which imports that, for longer than
            most programs run.
    """
    server = _server(imports)
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory) / name for name in ("stdout", "stderr")]
        for path in paths:
            path.touch()
        request = {
            "program": str(program),
            "arguments": list(map(str, arguments)),
            "environment": dict(os.environ if environment is None else environment),
            "streams": list(map(str, paths)),
        }
        _tell(server, request)
        pid = _answer(server)  # The child has opened its streams.
        return Running(server, pid, paths[0].open("rb"), paths[1].open("rb"))


class _Server(NamedTuple):
    """The pipes to a process that forks."""

    requests: IO[str]
    answers: IO[str]


@functools.cache
def _server(imports: tuple[str, ...]) -> _Server:
    """The process that forks, one for each set of imports; it ends with its pipe, at our end at last.

    The first imports torch, and the others are forked from that one.
    """
    if imports:
        with tempfile.TemporaryDirectory() as directory:
            paths = [Path(directory) / name for name in ("requests", "answers")]
            for path in paths:
                os.mkfifo(path)
            _tell(_server(()), {"imports": imports, "pipes": list(map(str, paths))})
            server = _Server(paths[0].open("w"), paths[1].open())  # In the order in which the other side opens them.
        atexit.register(server.requests.close)
        return server
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)
    assert process.stdin is not None and process.stdout is not None
    return _Server(process.stdin, process.stdout)


def _tell(server: _Server, request: dict[str, object]) -> None:
    server.requests.write(json.dumps(request) + "\n")
    server.requests.flush()


def _answer(server: _Server) -> int:
    return int(server.answers.readline())


def _import_and_serve(imports: tuple[str, ...], requests: IO[str], answers: IO[str]) -> None:
    """Forks for each program that is asked for; returns at the end of requests, in a child when its program ended."""
    for name in imports:
        __import__(name)
    servers = []
    for line in requests:
        request = json.loads(line)
        if "wait" in request:
            print(os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1]), file=answers, flush=True)
        elif "imports" in request:
            pid = os.fork()
            if pid == 0:
                pipes = open(request["pipes"][0]), open(request["pipes"][1], "w")  # noqa: PTH123, SIM115  # to its end
                for descriptor in (0, 1):  # Its parent's pipes, which are to end with that one.
                    os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
                _import_and_serve(request["imports"], *pipes)
                return
            servers.append(pid)
        else:
            opened, told = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(opened)
                _run(request, told)
                return
            os.close(told)
            os.read(opened, 1)
            os.close(opened)
            print(pid, file=answers, flush=True)
    for pid in servers:
        os.waitpid(pid, 0)


def _run(request: dict[str, Any], told: int) -> None:
    """Runs a program in this process, which is a child, and tells when it has its streams."""
    os.setsid()
    for descriptor, path in enumerate([os.devnull, *request["streams"]]):
        os.dup2(os.open(path, os.O_RDWR), descriptor)
    os.write(told, b"x")
    os.close(told)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[:] = [request["program"], *request["arguments"]]
    sys.path[0] = str(Path(request["program"]).parent)
    # Its names stay until the interpreter ends, as those of a program do.
    vars(sys.modules["__main__"]).update(runpy.run_path(request["program"], run_name="__main__"))


if __name__ == "__main__":
    _import_and_serve(IMPORTS, sys.stdin, sys.stdout)
