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
from torchbucket.store.gcs.resources import PAGE_FIELDS, RESOURCE_FIELDS
from torchbucket.store.http.requests import NO_FIELDS, Content, Fields, Requests
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.operation import Request

__all__ = ["GcsRequests"]

# Without it an object with Content-Encoding: gzip would arrive decompressed, whole whatever range was asked for, and of
# another size than listed. Source: Cloud Storage documentation, "Transcoding of gzip-compressed files".
_AS_STORED: Final = "gzip"

_JSON: Final = "content-type: application/json; charset=UTF-8"


class GcsRequests(Requests):
    """Builds each request anew for each attempt, with a token that is valid then.

    Args:
        bucket: its name.
        config: key and page size.
        access: endpoint and tokens.
    """

    def __init__(self, bucket: str, config: StoreConfig, access: GcsAccess) -> None:
        key_name = config.kms_key_name
        super().__init__(config, {} if key_name is None else {"x-goog-encryption-kms-key-name": key_name})
        self._bucket = bucket
        self._access = access
        self._key_name = key_name

    def read_headers(self, *, checksums: bool) -> dict[str, str]:  # noqa: ARG002  # always told
        return {"accept-encoding": _AS_STORED}

    def version_headers(self, version: str | None) -> dict[str, str]:
        return {"x-goog-if-generation-match": _matched(version)}

    def sum_headers(self, checksum: str) -> dict[str, str]:
        return {"x-goog-hash": f"crc32c={checksum}"}

    def metadata_request(self, key: str) -> Request:
        """Ask for an object's resource."""
        return self._json_request("GET", self._object_path(key), {"fields": RESOURCE_FIELDS})

    def page_request(self, prefix: str, *, start_after: str, token: str | None) -> Request:
        # `startOffset` is inclusive. It is sent with every page, as the provider demands of a token's request.
        query = {"prefix": prefix, "startOffset": start_after, "pageToken": token}
        given = {name: value for name, value in query.items() if value}
        return self._json_request("GET", "", {"fields": PAGE_FIELDS, "maxResults": self._page_size, **given})

    def delete_request(self, key: str, condition: Condition | None) -> Request:
        query = {} if condition is None else {"ifGenerationMatch": _matched(condition.version)}
        return self._json_request("DELETE", self._object_path(key), query)

    def rewrite_request(self, source: ObjectInfo, target_key: str, token: str | None) -> Request:
        """Copy an object, or go on with a copy that took more than one request."""
        query = {"fields": f"done,rewriteToken,resource({RESOURCE_FIELDS})"}
        if source.version is not None:
            query["ifSourceGenerationMatch"] = _matched(source.version)
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
                entry["objectPreconditions"] = {"ifGenerationMatch": _matched(source.version)}
            entries.append(entry)
        query = {"fields": RESOURCE_FIELDS}
        if condition is not None:
            query["ifGenerationMatch"] = _matched(condition.version)
        if self._key_name is not None:
            query["kmsKeyName"] = self._key_name
        document = {"sourceObjects": entries, "destination": {"contentType": "application/octet-stream"}}
        path = f"{self._object_path(target_key)}/compose"
        return self._json_request("POST", path, query, body=json.dumps(document).encode())

    def request(
        self, method: str, key: str, *, query: Fields = NO_FIELDS, headers: Fields = NO_FIELDS, body: Content = None
    ) -> Request:
        url = f"{self._access.origin()}/{self._bucket}"
        if key:
            url += f"/{quote(self._named(key), safe='/-_.~')}"
        lines = [*self._access.lines(), *(f"{name}: {value}" for name, value in headers.items())]
        if body is not None:
            lines.append("Expect:")  # Waiting for leave to send costs a round trip.
        return Request(method=method, url=url + _query(query), headers=lines, body=body)

    def _json_request(self, method: str, path: str, query: dict[str, str], *, body: bytes | None = None) -> Request:
        url = f"{self._access.origin()}/storage/v1/b/{self._bucket}/o{path}{_query(query)}"
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


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")


def _query(parameters: Fields) -> str:
    pairs = (f"{name}={_quoted(value)}" if value else name for name, value in parameters.items())
    return f"?{'&'.join(pairs)}" if parameters else ""


def _matched(version: str | None) -> str:
    """The generation that must be there; 0 stands for none. *Source*: Cloud Storage, "Request preconditions".

    Another text would be refused with an answer that names no reason.
    """
    if version is not None and not (version.isascii() and version.isdigit()):
        raise ConfigError(f"a version on Cloud Storage is a generation, a text of digits; got {version!r}")
    return version or "0"
