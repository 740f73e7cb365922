"""Drives the testbed's ASGI application in memory, without sockets: one call, one response."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from bucketbench.testbed.gcs.service import GcsService
from bucketbench.testbed.model.memory import MemoryHolder
from bucketbench.testbed.model.objects import Buckets, Holder
from bucketbench.testbed.network.model import NetworkModel
from bucketbench.testbed.s3.service import S3Service
from bucketbench.testbed.serving.application import Application
from bucketbench.testbed.serving.dialect import Dialect

S3_PORT, GCS_PORT = 9000, 9001


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A response as a client sees it."""

    status: int
    headers: dict[str, str]
    body: bytes

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


class Driver:
    """A testbed in memory with one bucket, `data`."""

    def __init__(self, holder: Holder | None = None) -> None:
        self.buckets = Buckets(holder or MemoryHolder())
        if self.buckets.find("data") is None:
            self.buckets.create_bucket("data")
        dialects: dict[int, Dialect] = {
            S3_PORT: S3Service(self.buckets, base_hosts=("localhost",)),
            GCS_PORT: GcsService(self.buckets, base_hosts=("localhost",)),
        }
        self.application = Application(self.buckets, dialects=dialects, network=NetworkModel())

    def ask(
        self,
        method: str,
        path: str,
        query: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | Iterable[bytes] = b"",
        port: int = S3_PORT,
    ) -> Answer:
        """Sends one request, to S3 or to GCS by the port; a body that is not bytes arrives in the pieces given."""
        pieces = [body] if isinstance(body, bytes) else list(body)
        sent = {"host": "127.0.0.1:9000", "content-length": str(sum(map(len, pieces))), **(headers or {})}
        scope = {
            "type": "http",
            "server": ("127.0.0.1", port),
            "method": method,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
        }
        return asyncio.run(self._exchange(scope, pieces))

    async def _exchange(self, scope: dict[str, Any], pieces: list[bytes]) -> Answer:
        waiting = [
            {"type": "http.request", "body": piece, "more_body": index < len(pieces) - 1}
            for index, piece in enumerate(pieces)
        ]
        sent: list[Any] = []

        async def receive() -> Any:
            return waiting.pop(0) if waiting else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.application(scope, receive, send)
        start, *rest = sent
        headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
        return Answer(status=start["status"], headers=headers, body=b"".join(bytes(part["body"]) for part in rest))

    def put(self, key: str, body: bytes = b"", **headers: str) -> Answer:
        """Stores an object in `data`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.ask("PUT", f"/data/{quote(key)}", headers=sent, body=body)
        assert answer.status == 200, answer
        return answer
