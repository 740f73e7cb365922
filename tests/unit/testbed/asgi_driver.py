"""Drives the testbed's ASGI application in memory, without sockets: one call, one response."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree

from buckettestbed.admin.route import Admin
from buckettestbed.faults.plan import FaultSet
from buckettestbed.gcs.service import GcsService
from buckettestbed.model.buckets import Buckets, Storage
from buckettestbed.model.memory import MemoryStorage
from buckettestbed.network.model import NetworkModel
from buckettestbed.s3.service import S3Service
from buckettestbed.serving.application import Application
from buckettestbed.serving.dialect import Dialect
from buckettestbed.serving.exchange import CONNECTION

S3_PORT, GCS_PORT, ADMIN_PORT = 9000, 9001, 9002


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A response as a client sees it; `ending` is how the connection ended before it was whole: `reset`, `closed` or
    empty. Status 0 is no answer."""

    status: int
    headers: dict[str, str]
    body: bytes
    ending: str = ""

    @property
    def xml(self) -> ElementTree.Element:
        """The body parsed, without namespaces."""
        root = ElementTree.fromstring(self.body)
        for found in root.iter():
            found.tag = found.tag.rpartition("}")[2]
        return root

    @property
    def code(self) -> str:
        """The error code of an error document."""
        return self.xml.findtext("Code") or ""


class DrivenConnection:
    """Stands where a request's connection is."""

    number = 1
    lost = False

    def __init__(self) -> None:
        self.ending = ""
        self.gone = asyncio.Event()

    async def close(self) -> None:
        self.ending = "closed"
        self.gone.set()

    async def reset(self) -> None:
        self.ending = "reset"
        self.gone.set()


class Driver:
    """A testbed in memory with one bucket, `data`."""

    def __init__(
        self,
        storage: Storage | None = None,
        *,
        faults: object = (),
        log_requests: int = 0,
        opaque_etags: bool = False,
    ) -> None:
        self.buckets = Buckets(storage or MemoryStorage(), opaque_etags=opaque_etags)
        if self.buckets.find("data") is None:
            self.buckets.create_bucket("data")
        dialects: dict[int, Dialect] = {
            S3_PORT: S3Service(self.buckets, base_hosts=("localhost",)),
            GCS_PORT: GcsService(self.buckets, base_hosts=("localhost",)),
        }
        self.application = Application(
            self.buckets,
            dialects=dialects,
            network=NetworkModel(),
            faults=FaultSet.from_value(faults),
            log_requests=log_requests,
        )
        self.admin = Admin(self.application)

    def set_faults(self, *rules: dict[str, object], seed: int = 0) -> None:
        """Replaces the faults by these rules."""
        self.application.set_faults(FaultSet.from_value({"seed": seed, "rules": rules}))

    def ask(
        self,
        method: str,
        path: str,
        query: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | Iterable[bytes] = b"",
        port: int = S3_PORT,
        leaves: bool = False,
    ) -> Answer:
        """Sends one request, to S3, to GCS or to the admin route by the port; a body of pieces arrives in them.

        A client that `leaves` goes away as soon as its request is sent.
        """
        pieces = [body] if isinstance(body, bytes) else list(body)
        sent = {"host": "127.0.0.1:9000", "content-length": str(sum(map(len, pieces))), **(headers or {})}
        scope = {
            "type": "http",
            "server": ("127.0.0.1", port),
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
        }
        return asyncio.run(self._exchange(scope, pieces, leaves))

    async def _exchange(self, scope: dict[str, Any], pieces: list[bytes], leaves: bool) -> Answer:
        scope[CONNECTION] = connection = DrivenConnection()
        waiting = [
            {"type": "http.request", "body": piece, "more_body": index < len(pieces) - 1}
            for index, piece in enumerate(pieces)
        ]
        sent: list[Any] = []

        async def receive() -> Any:
            if waiting:
                return waiting.pop(0)
            if not leaves:
                await connection.gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await (self.admin if scope["server"][1] == ADMIN_PORT else self.application)(scope, receive, send)
        if not sent:
            return Answer(status=0, headers={}, body=b"", ending=connection.ending)
        start, *rest = sent
        headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
        body = b"".join(bytes(part["body"]) for part in rest)
        return Answer(status=start["status"], headers=headers, body=body, ending=connection.ending)

    def ask_admin(self, method: str, name: str, query: str = "", *, body: bytes = b"") -> Answer:
        """Sends one request to the admin route."""
        return self.ask(method, f"/{name}", query, body=body, port=ADMIN_PORT)

    def put(self, key: str, body: bytes = b"", **headers: str) -> Answer:
        """Stores an object in `data`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.ask("PUT", f"/data/{quote(key)}", headers=sent, body=body)
        assert answer.status == 200, answer
        return answer
