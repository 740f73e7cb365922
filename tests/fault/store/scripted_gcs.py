"""A server that gives the answers it was told to, in turn: for what Cloud Storage says and the testbed does not."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


@dataclass(frozen=True, kw_only=True)
class Say:
    """One answer. ``headers`` are pairs, since some come twice; ``lost`` ends the connection instead."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    lost: bool = False


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as it arrived, its target as it was encoded."""

    method: str
    target: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = b""


class ScriptedGcs:
    """Serves on a loopback port; ``answers`` are used up in order, and what is asked beyond them is answered 500."""

    def __init__(self, *answers: Say) -> None:
        self.answers = deque(answers)
        self.asked: list[Asked] = []
        outer, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with lock:
                    outer.asked.append(Asked(method=self.command, target=self.path, headers=headers, body=body))
                    say = outer.answers.popleft() if outer.answers else Say(status=500)
                if say.lost:
                    self.close_connection = True
                    return
                self.send_response(say.status)
                for name, value in say.headers:
                    self.send_header(name, value)
                if "content-length" not in {name.lower() for name, _ in say.headers}:
                    self.send_header("content-length", str(len(say.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(say.body)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815  # the base class wants them

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
