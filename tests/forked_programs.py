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
from typing import IO

__all__ = ["Ended", "Running", "run", "start"]

IMPORTS = ("torch.utils.data", "torchbucket", "torchbucket.datasets", "torchbucket.store", "botocore.session")
LIMIT_S = 110.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a program ended: its status, negative for a signal, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


class Running:
    """A program that was started, with a session and a process group of its own."""

    def __init__(self, server: subprocess.Popen[str], pid: int, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self.pid = pid
        self._server = server
        self._stdout = stdout
        self._stderr = stderr

    def wait(self, limit_s: float = LIMIT_S) -> Ended:
        """Waits for the program's end, once; kills it with all its processes and fails where that takes too long."""
        _tell(self._server, {"wait": self.pid})
        assert self._server.stdout is not None
        in_time = bool(select.select([self._server.stdout], [], [], limit_s)[0])
        if not in_time:
            os.killpg(self.pid, signal.SIGKILL)
        ended = Ended(returncode=_answer(self._server), stdout=_text(self._stdout), stderr=_text(self._stderr))
        assert in_time, f"the program did not end within {limit_s} s: {ended.stdout}\n{ended.stderr}"
        return ended


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
        imports: modules that it is to find imported, besides torch's loaders and torchbucket.
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


@functools.cache
def _server(imports: tuple[str, ...]) -> subprocess.Popen[str]:
    """The process that forks, one for each set of imports; it ends with its standard input, at our end at last."""
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__, *IMPORTS, *imports],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)
    return server


def _tell(server: subprocess.Popen[str], request: dict[str, object]) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()


def _answer(server: subprocess.Popen[str]) -> int:
    assert server.stdout is not None
    return int(server.stdout.readline())


def _text(stream: IO[bytes]) -> str:
    with stream:
        return stream.read().decode()


def _serve() -> None:
    """Forks for each program that is asked for; returns at the end of requests, in a child when its program ended."""
    for name in sys.argv[1:]:
        __import__(name)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            print(os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1]), flush=True)
            continue
        opened, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            for descriptor, path in enumerate([os.devnull, *request["streams"]]):
                os.dup2(os.open(path, os.O_RDWR), descriptor)
            os.write(told, b"x")
            os.close(told)
            os.close(opened)
            os.environ.clear()
            os.environ.update(request["environment"])
            sys.argv[:] = [request["program"], *request["arguments"]]
            sys.path[0] = str(Path(request["program"]).parent)
            runpy.run_path(request["program"], run_name="__main__")
            return
        os.close(told)
        os.read(opened, 1)
        os.close(opened)
        print(pid, flush=True)


if __name__ == "__main__":
    _serve()
