"""A bucket of the testbed as bare HTTP shows it: no client between the test and the server.

By S3's API over one connection that is kept alive; a request takes well under a millisecond.
"""

from __future__ import annotations

import http.client
import itertools
import ssl
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlencode, urlsplit

from buckettestbed import RunningTestbed

__all__ = ["Answer", "Wire"]

_numbers = itertools.count(1)
_NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer; `headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Wire:
    """Plain requests to a bucket that it makes, with a name of its own. Not thread-safe."""

    def __init__(self, testbed: RunningTestbed) -> None:
        parts = urlsplit(testbed.s3_endpoint)
        host, port = str(parts.hostname), parts.port
        if testbed.ca_certificate is None:
            self._connection = http.client.HTTPConnection(host, port, timeout=60)
        else:
            context = ssl.create_default_context(cafile=str(testbed.ca_certificate))
            self._connection = http.client.HTTPSConnection(host, port, timeout=60, context=context)
        self.bucket = f"clients-{next(_numbers)}"
        self._demand(self.ask("PUT"), 200)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def ask(
        self,
        method: str,
        key: str = "",
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Returns the answer to one request; every byte of the key that is not a letter or a digit is escaped."""
        path = f"/{self.bucket}" + (f"/{quote(key, safe='')}" if key else "")
        target = path + (f"?{urlencode(query)}" if query else "")
        self._connection.request(method, target, body=body, headers=dict(headers or {}))
        answer = self._connection.getresponse()
        return Answer(
            status=answer.status,
            headers={name.lower(): value for name, value in answer.getheaders()},
            body=answer.read(),
        )

    def put(self, key: str, body: bytes, **headers: str) -> None:
        """Writes an object."""
        self._demand(self.ask("PUT", key, body=body, headers=headers), 200)

    def get(self, key: str) -> bytes:
        """Returns an object's bytes."""
        answer = self.ask("GET", key)
        self._demand(answer, 200)
        return answer.body

    def names(self, prefix: str = "") -> list[str]:
        """Returns all names that begin with a prefix, in the order in which they are listed."""
        found: list[str] = []
        query = {"list-type": "2", "encoding-type": "url", "prefix": prefix}
        while True:
            answer = self.ask("GET", query=query)
            self._demand(answer, 200)
            page = ET.fromstring(answer.body)
            found += [unquote(key.text or "") for key in page.iterfind(f"{_NAMESPACE}Contents/{_NAMESPACE}Key")]
            token = page.findtext(f"{_NAMESPACE}NextContinuationToken")
            if token is None:
                return found
            query["continuation-token"] = token

    def _demand(self, answer: Answer, status: int) -> None:
        if answer.status != status:
            raise AssertionError(f"expected {status}, but {answer.status}: {answer.body.decode(errors='replace')}")
