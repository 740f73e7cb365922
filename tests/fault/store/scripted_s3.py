"""A tiny S3 on raw sockets whose answers can be spoiled one by one: for faults that no real server makes on demand."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import socket
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

SECRET = "do-not-show-this-secret"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What to do instead of the right answer, once.

    ``status`` with ``body`` and ``headers`` answers so. ``reset_after`` sends so many bytes of the right answer's body
    and then resets the connection; with ``close_after`` the connection ends in order; with ``stall_after`` it stays
    open and silent. ``-1`` means: not even the head. ``applied`` does the work first, so that only its answer is lost.
    ``until`` holds the right answer back until the event is set.
    """

    status: int | None = None
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    reset_after: int | None = None
    close_after: int | None = None
    stall_after: int | None = None
    applied: bool = False
    replace_object: bytes | None = None
    until: threading.Event | None = None


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A request as it arrived."""

    kind: str
    key: str
    headers: dict[str, str]
    query: dict[str, str]
    body: bytes


class ScriptedS3:
    """Serves one bucket on a loopback port; ``faults[kind]`` are used up one a request of that kind."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.object_headers: defaultdict[str, dict[str, str]] = defaultdict(dict)  # of answers about an object
        self.tags: dict[str, str] = {}  # those that are not the MD5 of the content
        self.part_tag: str | None = None  # of every part, instead of the MD5 of its content
        self.uploads: dict[str, dict[int, bytes]] = {}
        self._part_tags: dict[tuple[str, int], str] = {}
        self.faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self.seen: list[Seen] = []
        self.pages: list[bytes] = []
        self.connections = 0
        self.ignores_ranges = False
        self.omits_length = False  # and ends each answer by ending the connection
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=10)

    def count(self, kind: str) -> int:
        return sum(seen.kind == kind for seen in self.seen)

    def of(self, kind: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.kind == kind]

    def _accept(self) -> None:
        while not self._done.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._sockets.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            for seen in _requests(stream):
                if not self._answer(connection, seen):
                    return

    def _answer(self, connection: socket.socket, seen: Seen) -> bool:
        with self._lock:
            self.seen.append(seen)
            fault = self.faults[seen.kind].popleft() if self.faults[seen.kind] else None
            if fault is not None and fault.replace_object is not None:
                self.objects[seen.key] = fault.replace_object
                self.tags.pop(seen.key, None)
            if fault is not None and fault.status is not None:
                if fault.applied:
                    self._apply(seen)
                body = b"" if seen.kind == "head_object" else fault.body
                connection.sendall(_head(fault.status, {**fault.headers, "content-length": str(len(body))}) + body)
                return True
            silent = fault is not None and -1 in (fault.reset_after, fault.close_after, fault.stall_after)
            status, headers, body = (200, {}, b"") if silent and not fault.applied else self._apply(seen)
        if fault is not None and fault.until is not None:
            fault.until.wait(60)
        limits = () if fault is None else (fault.reset_after, fault.close_after, fault.stall_after)
        cut = next((limit for limit in limits if limit is not None), None)
        if cut != -1:
            length = headers.pop("content-length", str(len(body)))
            lengths = {} if self.omits_length else {"content-length": length}
            connection.sendall(_head(status, {**headers, **lengths}))
            connection.sendall(body if cut is None else body[:cut])
            if self.omits_length:
                return False
        if cut is None:
            return True
        assert fault is not None
        if fault.stall_after is not None:
            self._done.wait(60)
        if fault.reset_after is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    def _apply(self, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        if seen.kind in ("get_object", "head_object"):
            return self._read(seen)
        if seen.kind == "list_objects":
            return 200, {}, self.pages.pop(0)
        if seen.kind == "put_object":
            if seen.headers.get("if-none-match") == "*" and seen.key in self.objects:
                return _error(412, "PreconditionFailed")
            self.objects[seen.key] = seen.body
            return 200, {"etag": _tag(seen.body)}, b""
        if seen.kind == "begin_upload":
            upload = f"upload-{len(self.seen)}"
            self.uploads[upload] = {}
            return (
                200,
                {},
                (
                    f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
                ).encode(),
            )
        if seen.kind == "head_bucket":
            return 200, {}, b""
        if seen.kind == "delete_object":
            self.objects.pop(seen.key, None)
            return 204, {}, b""
        upload = seen.query["uploadId"]
        if upload not in self.uploads:
            return _error(404, "NoSuchUpload")
        if seen.kind == "upload_part":
            number = int(seen.query["partNumber"])
            self.uploads[upload][number] = seen.body
            self._part_tags[upload, number] = _tag(seen.body)
            return 200, {"etag": self.part_tag or self._part_tags[upload, number]}, b""
        parts = self.uploads.pop(upload)
        if seen.kind == "abort_upload":
            return 204, {}, b""
        numbers = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", seen.body)]
        assert numbers == sorted(parts), (numbers, sorted(parts))
        self.objects[seen.key] = b"".join(parts[number] for number in numbers)
        tags = (self._part_tags[upload, number] for number in numbers)
        digest = hashlib.md5(b"".join(bytes.fromhex(tag.strip('"')) for tag in tags)).hexdigest()
        self.tags[seen.key] = f'"{digest}-{len(numbers)}"'
        body = f"<CompleteMultipartUploadResult><ETag>{self.tags[seen.key]}</ETag></CompleteMultipartUploadResult>"
        return 200, {}, body.encode()

    def _read(self, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        content = self.objects.get(seen.key)
        if content is None:
            return _error(404, "NoSuchKey", empty=seen.kind == "head_object")
        tag = self.tags.get(seen.key, _tag(content))
        if seen.headers.get("if-match", tag) != tag:
            return _error(412, "PreconditionFailed", empty=seen.kind == "head_object")
        headers = {"etag": tag, "last-modified": "Fri, 27 Nov 2026 20:00:00 GMT", **self.object_headers[seen.key]}
        if seen.kind == "head_object":
            return 200, {**headers, "content-length": str(len(content))}, b""
        asked = seen.headers.get("range")
        if asked is None or self.ignores_ranges:
            return 200, headers, content
        first, last = asked.removeprefix("bytes=").split("-")
        start, stop = int(first), min(int(last or len(content)) + 1, len(content))
        if start >= len(content):
            return 416, {"content-range": f"bytes */{len(content)}"}, b""
        headers["content-range"] = f"bytes {start}-{stop - 1}/{len(content)}"
        return 206, headers, content[start:stop]


def _requests(stream: object) -> Iterator[Seen]:
    while True:
        line = stream.readline()
        if not line:
            return
        method, target, _ = line.decode("latin-1").split(" ")
        headers = {}
        while (line := stream.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers.get("content-length", 0)))
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        key = unquote(parts.path).split("/", 2)[2]
        yield Seen(kind=_kind(method, key, query), key=key, headers=headers, query=query, body=body)


def _kind(method: str, key: str, query: dict[str, str]) -> str:
    if "uploads" in query and method == "POST":
        return "begin_upload"
    if "uploadId" in query:
        return {"PUT": "upload_part", "POST": "complete_upload", "DELETE": "abort_upload"}[method]
    if not key:
        return "list_objects" if method == "GET" else "head_bucket"
    return f"{method.lower()}_object"


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Scripted\r\n{lines}\r\n".encode()


def error_body(code: str, **fields: str) -> bytes:
    inner = "".join(
        f"<{name}>{value}</{name}>" for name, value in {"Code": code, "Message": "scripted", **fields}.items()
    )
    return f"<Error>{inner}</Error>".encode()


def _error(status: int, code: str, *, empty: bool = False) -> tuple[int, dict[str, str], bytes]:
    return status, {}, b"" if empty else error_body(code)


@functools.lru_cache(8)  # An object that is read in ranges is asked for its tag again and again.
def _tag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'
