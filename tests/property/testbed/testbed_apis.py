"""The testbed's three APIs as one shape, by plain HTTP over connections that are kept alive.

No client in between: a request takes half a millisecond, so that a property test makes thousands, and says just what it
means to say. What real clients make of the same server is `tests/clients_conformance`.
"""

from __future__ import annotations

import abc
import http.client
import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

__all__ = ["Answer", "Api", "JsonApi", "Listing", "S3Api", "XmlApi"]

CHUNK_BYTES = 256 << 10
"""A chunk of a resumable upload, other than the last, is a multiple of this."""

PAGES_LIMIT = 1000
"""More than any listing here has."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer; `headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a listing asks for. `start` is where it starts: after that name, or at it, as the API has it."""

    prefix: str
    delimiter: str
    start: str
    page_entries: int


class Api(abc.ABC):
    """One bucket by one API. `absent` and `current` make the conditions that a write may carry."""

    starts_at_name = False
    bucket: str

    def __init__(self, endpoint: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=60)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Returns the answer to one request."""
        target = path + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        self._connection.request(method, target, body=body, headers=dict(headers or {}))
        answer = self._connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(status=answer.status, headers=found, body=answer.read())

    @abc.abstractmethod
    def version(self, key: str) -> str | None:
        """Returns what stands for the current version, or None where there is no object."""

    @abc.abstractmethod
    def put(self, key: str, body: bytes, *, only_over: str | None = None, only_new: bool = False) -> int:
        """Writes an object and returns the status: over one version only, or only where there is none, if asked."""

    @abc.abstractmethod
    def get(self, key: str, byte_range: str | None = None) -> Answer:
        """Reads an object, or a range of it in the words of the Range header."""

    @abc.abstractmethod
    def delete(self, key: str) -> int:
        """Removes an object and returns the status."""

    @abc.abstractmethod
    def copy(self, source: str, target: str) -> int:
        """Copies an object and returns the status."""

    @abc.abstractmethod
    def upload(self, key: str, pieces: Sequence[bytes], *, finishes: bool) -> None:
        """Writes an object in pieces, or begins to and gives up."""

    @abc.abstractmethod
    def pages(self, listing: Listing) -> list[tuple[list[str], list[str]]]:
        """Returns names and common prefixes of each page."""


class _Rest(Api):
    """What S3 and the XML API of GCS have in common."""

    copy_header: str
    only_new: Mapping[str, str]

    def _path(self, key: str) -> str:
        return f"/{self.bucket}/{quote(key, safe='')}"

    @abc.abstractmethod
    def only_over(self, version: str) -> Mapping[str, str]:
        """Returns the header of a condition."""

    def put(self, key: str, body: bytes, *, only_over: str | None = None, only_new: bool = False) -> int:
        condition = self.only_new if only_new else {} if only_over is None else self.only_over(only_over)
        return self.ask("PUT", self._path(key), headers=condition, body=body).status

    def get(self, key: str, byte_range: str | None = None) -> Answer:
        return self.ask("GET", self._path(key), headers={"range": byte_range} if byte_range else {})

    def delete(self, key: str) -> int:
        return self.ask("DELETE", self._path(key)).status

    def copy(self, source: str, target: str) -> int:
        return self.ask("PUT", self._path(target), headers={self.copy_header: self._path(source)}).status

    def upload(self, key: str, pieces: Sequence[bytes], *, finishes: bool) -> None:
        begun = self.ask("POST", self._path(key), {"uploads": ""})
        upload_id = next(found.text for found in ET.fromstring(begun.body).iter() if found.tag.endswith("UploadId"))
        etags = []
        for number, piece in enumerate(pieces, start=1):
            sent = self.ask("PUT", self._path(key), {"partNumber": number, "uploadId": upload_id}, body=piece)
            assert sent.status == 200, sent
            etags.append(sent.headers["etag"])
        if not finishes:
            assert self.ask("DELETE", self._path(key), {"uploadId": upload_id}).status == 204
            return
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
            for number, etag in enumerate(etags, start=1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        done = self.ask("POST", self._path(key), {"uploadId": upload_id}, body=body)
        assert done.status == 200, done
        assert b"CompleteMultipartUploadResult" in done.body, done

    def pages(self, listing: Listing) -> list[tuple[list[str], list[str]]]:
        query = {"list-type": "2", "encoding-type": "url", "max-keys": listing.page_entries}
        query |= {"prefix": listing.prefix} if listing.prefix else {}
        query |= {"delimiter": listing.delimiter} if listing.delimiter else {}
        query |= {"start-after": listing.start} if listing.start else {}
        pages = []
        while True:
            assert len(pages) < PAGES_LIMIT, "a listing without an end"
            answer = self.ask("GET", f"/{self.bucket}", query)
            assert answer.status == 200, answer
            document = ET.fromstring(answer.body)
            space = document.tag.partition("}")[0] + "}"
            names = [unquote(found.text or "") for found in document.iterfind(f"{space}Contents/{space}Key")]
            groups = document.iterfind(f"{space}CommonPrefixes/{space}Prefix")
            pages.append((names, [unquote(found.text or "") for found in groups]))
            token = document.findtext(f"{space}NextContinuationToken")
            assert (document.findtext(f"{space}IsTruncated") == "true") == (token is not None)
            if token is None:
                return pages
            query["continuation-token"] = token


class S3Api(_Rest):
    """S3; a version is an ETag."""

    copy_header = "x-amz-copy-source"
    only_new = {"if-none-match": "*"}  # noqa: RUF012 - a constant

    def only_over(self, version: str) -> Mapping[str, str]:
        return {"if-match": version}

    def version(self, key: str) -> str | None:
        return self.ask("HEAD", self._path(key)).headers.get("etag")


class XmlApi(_Rest):
    """GCS's XML API; a version is a generation."""

    copy_header = "x-goog-copy-source"
    only_new = {"x-goog-if-generation-match": "0"}  # noqa: RUF012 - a constant

    def only_over(self, version: str) -> Mapping[str, str]:
        return {"x-goog-if-generation-match": version}

    def version(self, key: str) -> str | None:
        return self.ask("HEAD", self._path(key)).headers.get("x-goog-generation")


class JsonApi(Api):
    """GCS's JSON API; a version is a generation."""

    starts_at_name = True

    def _path(self, key: str) -> str:
        return f"/storage/v1/b/{self.bucket}/o/{quote(key, safe='')}"

    def version(self, key: str) -> str | None:
        answer = self.ask("GET", self._path(key), {"fields": "generation"})
        return None if answer.status == 404 else str(json.loads(answer.body)["generation"])

    def put(self, key: str, body: bytes, *, only_over: str | None = None, only_new: bool = False) -> int:
        query = {"uploadType": "media", "name": key}
        query |= {"ifGenerationMatch": "0"} if only_new else {}
        query |= {"ifGenerationMatch": only_over} if only_over is not None else {}
        return self.ask("POST", f"/upload/storage/v1/b/{self.bucket}/o", query, body=body).status

    def get(self, key: str, byte_range: str | None = None) -> Answer:
        return self.ask("GET", self._path(key), {"alt": "media"}, {"range": byte_range} if byte_range else {})

    def delete(self, key: str) -> int:
        return self.ask("DELETE", self._path(key)).status

    def copy(self, source: str, target: str) -> int:
        return self.ask(
            "POST", f"{self._path(source)}/rewriteTo{self._path(target).removeprefix('/storage/v1')}"
        ).status

    def compose(self, sources: Sequence[str], target: str) -> int:
        """Joins objects and returns the status."""
        body = json.dumps({"sourceObjects": [{"name": source} for source in sources]}).encode()
        headers = {"content-type": "application/json"}
        return self.ask("POST", f"{self._path(target)}/compose", headers=headers, body=body).status

    def upload(self, key: str, pieces: Sequence[bytes], *, finishes: bool) -> None:
        """Sends chunks of 256 KiB through a session; the last takes what is left."""
        query = {"uploadType": "resumable", "name": key}
        begun = self.ask("POST", f"/upload/storage/v1/b/{self.bucket}/o", query)
        assert begun.status == 200, begun
        address = urlsplit(begun.headers["location"])
        session, body = f"{address.path}?{address.query}", b"".join(pieces)
        start = 0
        while len(body) - start > CHUNK_BYTES:
            stop = start + CHUNK_BYTES
            headers = {"content-range": f"bytes {start}-{stop - 1}/*"}
            sent = self.ask("PUT", session, headers=headers, body=body[start:stop])
            assert (sent.status, sent.headers["range"]) == (308, f"bytes=0-{stop - 1}"), sent
            start = stop
        if not finishes:
            assert self.ask("DELETE", session).status == 499
            return
        last = f"bytes {start}-{len(body) - 1}/{len(body)}" if body else "bytes */0"
        assert self.ask("PUT", session, headers={"content-range": last}, body=body[start:]).status == 200

    def pages(self, listing: Listing) -> list[tuple[list[str], list[str]]]:
        query = {"maxResults": listing.page_entries}
        query |= {"prefix": listing.prefix} if listing.prefix else {}
        query |= {"delimiter": listing.delimiter} if listing.delimiter else {}
        query |= {"startOffset": listing.start} if listing.start else {}
        pages = []
        while True:
            assert len(pages) < PAGES_LIMIT, "a listing without an end"
            answer = self.ask("GET", f"/storage/v1/b/{self.bucket}/o", query)
            assert answer.status == 200, answer
            page = json.loads(answer.body)
            pages.append(([item["name"] for item in page.get("items", [])], page.get("prefixes", [])))
            if "nextPageToken" not in page:
                return pages
            query["pageToken"] = page["nextPageToken"]
