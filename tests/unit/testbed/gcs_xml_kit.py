"""A driver of the XML API of GCS, and what its tests ask for again and again."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from urllib.parse import quote

import google_crc32c
from asgi_driver import GCS_PORT, Answer, Driver


def crc32c_of(body: bytes) -> str:
    """Returns the CRC-32C as GCS shows it."""
    return base64.b64encode(google_crc32c.Checksum(body).digest()).decode()


def md5_of(body: bytes) -> str:
    """Returns the MD5 as GCS shows it."""
    return base64.b64encode(hashlib.md5(body).digest()).decode()


class XmlDriver(Driver):
    """A testbed in memory that is asked over the XML API, and over S3 by `ask`."""

    def xml(
        self, method: str, path: str, query: str = "", body: bytes | Iterable[bytes] = b"", **headers: str
    ) -> Answer:
        """Sends one request; underscores in header names stand for hyphens."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(method, path, query, headers=sent, body=body, port=GCS_PORT)

    def store(self, key: str, body: bytes = b"", **headers: str) -> Answer:
        """Stores an object in `data`."""
        answer = self.xml("PUT", f"/data/{quote(key)}", body=body, **headers)
        assert answer.status == 200, answer
        return answer

    def generation(self, key: str) -> str:
        """Returns the generation of an object in `data`."""
        return self.xml("HEAD", f"/data/{quote(key)}").headers["x-goog-generation"]
