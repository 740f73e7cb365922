"""The requests of Cloud Storage for one bucket: its XML API carries bytes, its JSON API everything else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError, UnsupportedError
from torchbucket.store.conditions import Condition
from torchbucket.store.gcs.access import GcsAccess
from torchbucket.store.gcs.listing import page_query
from torchbucket.store.gcs.resources import RESOURCE_FIELDS
from torchbucket.store.http.uploads import UploadedPart, completion
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.body import Body
from torchbucket.store.transport.operation import Request

__all__ = ["GcsRequests"]

# Without it an object with Content-Encoding: gzip would arrive decompressed, whole whatever range was asked for, and of
# another size than listed. Source: Cloud Storage documentation, "Transcoding of gzip-compressed files".
_AS_STORED: Final = "accept-encoding: gzip"

_JSON: Final = "content-type: application/json; charset=UTF-8"


class GcsRequests:
    """Builds each request anew for each attempt, with a token that is valid then.

    Args:
        bucket: its name.
        config: key and page size.
        access: endpoint and tokens.
    """

    def __init__(self, bucket: str, config: StoreConfig, access: GcsAccess) -> None:
        self._bucket = bucket
        self._page_size = config.list_page_size
        self._access = access
        self._key_name = config.kms_key_name

    def prepare(self) -> None:
        """Find endpoint and token, on the caller's thread."""
        self._access.prepare()

    def renew(self) -> None:
        """Replace locks in a forked child."""
        self._access.renew()

    def get_request(self, key: str, *, start: int | None, stop: int | None, version: str | None) -> Request:
        """Ask for a range of an object, or all of it, of one generation if one is given."""
        lines = [*self._access.lines(), _AS_STORED]
        if start is not None:
            lines.append(f"range: bytes={start}-" if stop is None else f"range: bytes={start}-{stop - 1}")
        if version is not None:
            lines.append(f"x-goog-if-generation-match: {_generation(version)}")
        return Request(method="GET", url=self._xml_url(key), headers=lines)

    def head_request(self, key: str, *, version: str | None = None, checksums: bool = False) -> Request:  # noqa: ARG002  # always told
        """Ask for an object's description in headers."""
        lines = [*self._access.lines(), _AS_STORED]
        if version is not None:
            lines.append(f"x-goog-if-generation-match: {_generation(version)}")
        return Request(method="HEAD", url=self._xml_url(key), headers=lines)

    def metadata_request(self, key: str) -> Request:
        """Ask for an object's resource."""
        return self._json_request("GET", self._object_path(key), {"fields": RESOURCE_FIELDS})

    def page_request(self, prefix: str, *, start_after: str, token: str | None) -> Request:
        """Ask for one page of a listing."""
        query = page_query(prefix, start_after=start_after, token=token, page_size=self._page_size)
        return self._json_request("GET", "", query)

    def put_request(self, key: str, body: Body, checksum: str, *, condition: Condition | None) -> Request:
        """Send an object's bytes."""
        lines = [f"x-goog-hash: crc32c={checksum}", *self._encryption()]
        if condition is not None:
            lines.append(f"x-goog-if-generation-match: {_matched(condition)}")
        return self._xml_request("PUT", key, lines=lines, body=body, once=condition is not None and not body)

    def delete_request(self, key: str, condition: Condition | None) -> Request:
        """Remove an object, of one generation if that is the condition."""
        query = {} if condition is None else {"ifGenerationMatch": _matched(condition)}
        return self._json_request("DELETE", self._object_path(key), query)

    def rewrite_request(self, source: ObjectInfo, target_key: str, token: str | None) -> Request:
        """Copy an object, or go on with a copy that took more than one request."""
        query = {"fields": f"done,rewriteToken,resource({RESOURCE_FIELDS})"}
        if source.version is not None:
            query["ifSourceGenerationMatch"] = _generation(source.version)
        if token is not None:
            query["rewriteToken"] = token
        if self._key_name is not None:
            query["destinationKmsKeyName"] = self._key_name
        path = f"{self._object_path(source.key)}/rewriteTo/b/{self._bucket}/o{self._object_path(target_key)}"
        return self._json_request("POST", path, query, body=b"")

    def compose_request(
        self, sources: Sequence[ObjectInfo], target_key: str, *, condition: Condition | None
    ) -> Request:
        """Name the objects that make the target; each must have its generation still."""
        entries: list[dict[str, object]] = []
        for source in sources:
            entry: dict[str, object] = {"name": source.key}
            if source.version is not None:
                entry["objectPreconditions"] = {"ifGenerationMatch": _generation(source.version)}
            entries.append(entry)
        query = {"fields": RESOURCE_FIELDS}
        if condition is not None:
            query["ifGenerationMatch"] = _matched(condition)
        if self._key_name is not None:
            query["kmsKeyName"] = self._key_name
        document = {"sourceObjects": entries, "destination": {"contentType": "application/octet-stream"}}
        path = f"{self._object_path(target_key)}/compose"
        return self._json_request("POST", path, query, body=json.dumps(document).encode())

    def begin_request(self, key: str) -> Request:
        """Open an upload."""
        return self._xml_request("POST", key, query="uploads", lines=self._encryption(), body=b"")

    def part_request(self, key: str, upload_id: str, number: int, body: Body, checksum: str) -> Request:
        """Send one part."""
        query = f"partNumber={number}&uploadId={_quoted(upload_id)}"
        return self._xml_request("PUT", key, query=query, lines=[f"x-goog-hash: crc32c={checksum}"], body=body)

    def complete_request(
        self, key: str, upload_id: str, parts: list[UploadedPart], *, condition: Condition | None
    ) -> Request:
        """Name the parts that make the object; the provider takes no condition here."""
        assert condition is None
        body = completion(UploadedPart(number=part.number, size_bytes=part.size_bytes, tag=part.tag) for part in parts)
        lines = ["content-type: application/xml"]
        return self._xml_request("POST", key, query=f"uploadId={_quoted(upload_id)}", lines=lines, body=body)

    def abort_request(self, key: str, upload_id: str) -> Request:
        """Give an upload up."""
        return self._xml_request("DELETE", key, query=f"uploadId={_quoted(upload_id)}")

    def uploads_request(self, prefix: str, marker: tuple[str, str] | None) -> Request:
        """Ask for one page of the open uploads."""
        query = f"uploads&encoding-type=url&max-uploads={self._page_size}"
        if prefix:
            query += f"&prefix={_quoted(prefix)}"
        if marker is not None:
            query += f"&key-marker={_quoted(marker[0])}"
            if marker[1]:
                query += f"&upload-id-marker={_quoted(marker[1])}"
        url = f"{self._access.origin()}/{self._bucket}?{query}"
        return Request(method="GET", url=url, headers=list(self._access.lines()))

    # -- how requests are spelled --------------------------------------------------------------------------------------

    def _xml_url(self, key: str) -> str:
        return f"{self._access.origin()}/{self._bucket}/{quote(self._named(key), safe='/-_.~')}"

    def _xml_request(
        self,
        method: str,
        key: str,
        *,
        query: str = "",
        lines: Sequence[str] = (),
        body: bytes | Body | None = None,
        once: bool = False,
    ) -> Request:
        url = f"{self._xml_url(key)}?{query}" if query else self._xml_url(key)
        headers = [*self._access.lines(), *lines]
        if body is not None:
            headers.append("Expect:")  # Waiting for leave to send costs a round trip.
        return Request(method=method, url=url, headers=headers, body=body, once=once)

    def _json_request(self, method: str, path: str, query: dict[str, str], *, body: bytes | None = None) -> Request:
        url = f"{self._access.origin()}/storage/v1/b/{self._bucket}/o{path}"
        if query:
            url += "?" + "&".join(f"{name}={_quoted(value)}" for name, value in query.items())
        headers = list(self._access.lines())
        if body is not None:
            headers += (_JSON, "Expect:")
        return Request(method=method, url=url, headers=headers, body=body)

    def _object_path(self, key: str) -> str:
        return f"/{_quoted(self._named(key))}"

    def _named(self, key: str) -> str:
        """Return the key; raise ``UnsupportedError`` where Cloud Storage has no such names.

        *Source*: Cloud Storage documentation, "Object names".
        """
        reason = ""
        if "\n" in key or "\r" in key:
            reason = "a line feed or carriage return"
        elif key in (".", ".."):
            reason = "nothing but dots"
        elif key.startswith(".well-known/acme-challenge/"):
            reason = "the reserved beginning .well-known/acme-challenge/"
        if reason:
            uri = f"gs://{self._bucket}/{key}"
            raise UnsupportedError(
                f"{uri!r}: its key has {reason}, which Cloud Storage does not allow; rename it",
                operation="key",
                uri=uri,
            )
        return key

    def _encryption(self) -> tuple[str, ...]:
        return () if self._key_name is None else (f"x-goog-encryption-kms-key-name: {self._key_name}",)


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


def _generation(version: str) -> str:
    """A version that can be a generation; others would be refused with an answer that names no reason."""
    if not (version.isascii() and version.isdigit()):
        raise ConfigError(f"a version on Cloud Storage is a generation, a text of digits; got {version!r}")
    return version


def _matched(condition: Condition) -> str:
    """The generation that must be there; 0 stands for none. *Source*: Cloud Storage, "Request preconditions"."""
    return "0" if condition.version is None else _generation(condition.version)
