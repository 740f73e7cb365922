"""The JSON API asked in memory: one call, one answer, documents parsed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from asgi_driver import CONNECTION, GCS_PORT, Answer, DrivenConnection, Driver

OBJECTS = "/storage/v1/b/data/o"
UPLOADS = "/upload/storage/v1/b/data/o"
UNIT = 256 << 10
"""What resumable uploads persist in multiples of."""


class JsonDriver(Driver):
    """A testbed in memory with one bucket, `data`, asked over GCS's port."""

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        *,
        document: object = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | Iterable[bytes] = b"",
    ) -> Answer:
        """Sends one request; a document is its body as JSON."""
        if document is not None:
            body = json.dumps(document).encode()
        return self.ask(method, path, urlencode(query or {}), headers=headers, body=body, port=GCS_PORT)

    def of(self, key: str, suffix: str = "", root: str = "/storage/v1") -> str:
        """Returns the path of an object of `data`."""
        return f"{root}/b/data/o/{quote(key, safe='')}{suffix}"

    def save(self, key: str, body: bytes = b"", **query: object) -> dict[str, Any]:
        """Stores an object; returns its resource."""
        answer = self.call("POST", UPLOADS, {"uploadType": "media", "name": key, **query}, body=body)
        assert answer.status == 200, answer
        return document_of(answer)

    def load(self, key: str, **headers: str) -> Answer:
        """Downloads an object."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.call("GET", self.of(key), {"alt": "media"}, headers=sent)

    def names(self, **query: object) -> list[str]:
        """Returns the names and common prefixes of one page."""
        page = document_of(self.call("GET", OBJECTS, query))
        return [item["name"] for item in page.get("items", [])] + page.get("prefixes", [])

    def start(self, key: str, resource: object = None, **headers: str) -> str:
        """Opens a resumable session; returns its path and query."""
        query = {"uploadType": "resumable", "name": key}
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.call("POST", UPLOADS, query, document=resource, headers=sent)
        assert answer.status == 200, answer
        location = urlsplit(answer.headers["location"])
        return f"{location.path}?{location.query}"

    def send(self, session: str, body: bytes | Iterable[bytes] = b"", method: str = "PUT", **headers: str) -> Answer:
        """Sends a chunk to a session."""
        path, _, query = session.partition("?")
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(method, path, query, headers=sent, body=body, port=GCS_PORT)

    def break_off(self, session: str, body: bytes, **headers: str) -> None:
        """Sends the beginning of a chunk to a session, and goes away."""
        path, _, query = session.partition("?")
        waiting: list[Any] = [{"type": "http.request", "body": body, "more_body": True}]
        scope = {
            CONNECTION: DrivenConnection(),
            "type": "http",
            "server": ("127.0.0.1", GCS_PORT),
            "method": "PUT",
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        }

        async def receive() -> Any:
            return waiting.pop(0) if waiting else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise AssertionError(f"{message} was sent to a client that had gone")

        asyncio.run(self.application(scope, receive, send))


def document_of(answer: Answer) -> dict[str, Any]:
    """Returns the document of an answer."""
    document = json.loads(answer.body)
    assert isinstance(document, dict)
    return document


def reason_of(answer: Answer) -> str:
    """Returns the reason in an error document, whose code must be the status."""
    error = document_of(answer)["error"]
    assert error["code"] == answer.status
    reason = error["errors"][0]["reason"]
    assert isinstance(reason, str)
    return reason
