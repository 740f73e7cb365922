"""A server that answers any S3 path after a first byte's time, and large bodies at a connection's rate: no more.

It runs as a program of its own, on a socket that its parent has bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine_measurement.work import LARGE_BYTES, MIB, SMALL_BYTES  # found by the line above

__all__ = ["server"]

FIRST_BYTE_S, CONNECTION_BYTES_PER_S, PIECE = 0.02, 100 * MIB, bytes(256 << 10)


async def application(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
    """Answer like S3 as far as the engines look."""
    if scope["type"] != "http":
        return
    taken = 0
    while True:
        message = await receive()
        taken += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    headers = [(b"etag", b'"tag"'), (b"last-modified", b"Fri, 27 Nov 2026 20:00:00 GMT")]
    if scope["method"] in ("PUT", "POST", "DELETE"):
        body = b""
        if scope["method"] == "POST":
            root = (
                b"InitiateMultipartUploadResult"
                if b"uploads" in scope["query_string"]
                else b"CompleteMultipartUploadResult"
            )
            body = b"<%s><UploadId>u</UploadId><ETag>tag</ETag></%s>" % (root, root)
        await asyncio.sleep(FIRST_BYTE_S + taken / CONNECTION_BYTES_PER_S)
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, _length(len(body))]})
        await send({"type": "http.response.body", "body": body})
        return
    size = LARGE_BYTES if scope["path"].endswith("large") else SMALL_BYTES
    start, stop, status = 0, size, 200
    asked = dict(scope["headers"]).get(b"range")
    if asked is not None:
        first, _, last = asked.removeprefix(b"bytes=").partition(b"-")
        start, stop, status = int(first), min(int(last or size) + 1, size), 206
        headers.append((b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, size)))
    await asyncio.sleep(FIRST_BYTE_S)
    await send({"type": "http.response.start", "status": status, "headers": [*headers, _length(stop - start)]})
    if scope["method"] == "HEAD":
        stop = start
    began, sent = time.monotonic(), 0
    while sent < stop - start:
        piece = PIECE[: stop - start - sent]
        sent += len(piece)
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        if size == LARGE_BYTES:
            await asyncio.sleep(max(0.0, began + sent / CONNECTION_BYTES_PER_S - time.monotonic()))
    await send({"type": "http.response.body", "body": b""})


def _length(size: int) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % size


def serve(descriptor: int, certificate: str, key: str) -> None:
    """Run the server on a socket that the parent has bound; without names of files in the clear."""
    import uvicorn

    files = {"ssl_certfile": certificate, "ssl_keyfile": key} if certificate else {}
    uvicorn.run(
        application,
        fd=descriptor,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="error",
        timeout_keep_alive=3600,  # no engine's connections end while another is measured
        **files,
    )


@contextlib.contextmanager
def server(tls: bool, directory: Path) -> Iterator[tuple[str, str | None]]:
    """Yield endpoint and certificate file of a server in a process of its own."""
    certificate = key = ""
    if tls:
        import trustme

        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        certificate, key = str(directory / "server.pem"), str(directory / "key.pem")
        issued.private_key_pem.write_to_path(key)
        Path(certificate).write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        authority.cert_pem.write_to_path(directory / "ca.pem")
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        listener.set_inheritable(True)
        command = [sys.executable, "-m", "engine_measurement.bare_server", str(listener.fileno()), certificate, key]
        process = subprocess.Popen(command, pass_fds=[listener.fileno()], cwd=Path(__file__).resolve().parents[1])
        port = listener.getsockname()[1]
        try:
            yield f"http{'s' * tls}://127.0.0.1:{port}", str(directory / "ca.pem") if tls else None
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    serve(int(sys.argv[1]), *sys.argv[2:])
