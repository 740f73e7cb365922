"""The requests of S3's REST API for one bucket."""

from __future__ import annotations

import hashlib
from typing import Final
from urllib.parse import quote

from torchbucket.config import StoreConfig
from torchbucket.store.conditions import Condition
from torchbucket.store.http.checksums import ALGORITHMS
from torchbucket.store.http.requests import NO_FIELDS, Content, Fields, Requests
from torchbucket.store.http.uploads import UploadedPart, sum_of_parts
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.s3.access import Access
from torchbucket.store.s3.sigv4 import EMPTY_SHA256, UNSIGNED_PAYLOAD, Signer, canonical_query
from torchbucket.store.transport.operation import Request

__all__ = ["S3Requests"]

# A checksum that covers the object's bytes, rather than its parts' checksums.
_OF_OBJECT: Final = {"x-amz-checksum-type": "FULL_OBJECT"}


class S3Requests(Requests):
    """Builds each request anew for each attempt, and signs it.

    Bodies are covered by a CRC that the server checks and that it repeats in its answer (what it costs is told in
    ``torchbucket.store.http.checksums``), and not by the signature's hash. Control documents are hashed. The CRC of an
    upload in parts is that of the full object, so that readers can check it however they split it.

    Args:
        bucket: its name.
        config: encryption, checksums and page size.
        access: endpoint and credentials.
    """

    def __init__(self, bucket: str, config: StoreConfig, access: Access) -> None:
        encryption = {
            "x-amz-server-side-encryption": config.sse,
            "x-amz-server-side-encryption-aws-kms-key-id": config.sse_kms_key_id,
        }
        super().__init__(config, {name: value for name, value in encryption.items() if value is not None})
        self._bucket = bucket
        self._access = access
        self._signer = Signer("")
        self._shared = {"x-amz-request-payer": "requester"} if config.requester_pays else {}
        self._upload_sum = ALGORITHMS[config.upload_checksum]
        self._sum_header = f"x-amz-checksum-{self._upload_sum.name}"
        # Parts carry a CRC, and the object the one that follows from theirs.
        self._upload_headers = {"x-amz-checksum-algorithm": self._upload_sum.name.upper(), **_OF_OBJECT}
        self.sum_element = f"Checksum{self._upload_sum.name.upper()}"

    def read_headers(self, *, checksums: bool) -> dict[str, str]:
        return {"x-amz-checksum-mode": "ENABLED"} if checksums else {}

    def version_headers(self, version: str | None) -> dict[str, str]:
        return {"if-none-match": "*"} if version is None else {"if-match": version}

    def sum_headers(self, checksum: str) -> dict[str, str]:
        return {self._sum_header: checksum}

    def bucket_request(self) -> Request:
        """Ask whether the bucket is there."""
        return self.request("HEAD", "")

    def delete_request(self, key: str, condition: Condition | None) -> Request:
        return self.request("DELETE", key, headers=self._condition_headers(condition))

    def copy_request(self, source: ObjectInfo, target_key: str) -> Request:
        """Copy an object."""
        return self.request("PUT", target_key, headers={**self._copied(source), **self._encryption}, body=b"")

    def page_request(self, prefix: str, *, start_after: str, token: str | None) -> Request:
        query = {"list-type": "2", "encoding-type": "url", "max-keys": self._page_size}
        if prefix:
            query["prefix"] = prefix
        if token is not None:
            query["continuation-token"] = token
        elif start_after:
            query["start-after"] = start_after
        return self.request("GET", "", query=query)

    def copy_part_request(
        self, source: ObjectInfo, target_key: str, upload_id: str, number: int, start: int, stop: int
    ) -> Request:
        """Have the server take one part from another object."""
        query = {"partNumber": str(number), "uploadId": upload_id}
        headers = {**self._copied(source), "x-amz-copy-source-range": f"bytes={start}-{stop - 1}"}
        return self.request("PUT", target_key, query=query, headers=headers, body=b"")

    def completion_headers(self, parts: list[UploadedPart]) -> dict[str, str]:
        """The object's checksum is told beforehand only where it is the CRC-64/NVME: services that know the others may
        be older than checksums of full objects, and would compare it with that of the parts' checksums."""
        whole = sum_of_parts(self._upload_sum, parts) if self._upload_sum.name == "crc64nvme" else None
        return _OF_OBJECT if whole is None else {**_OF_OBJECT, self._sum_header: whole.text}

    def request(
        self, method: str, key: str, *, query: Fields = NO_FIELDS, headers: Fields = NO_FIELDS, body: Content = None
    ) -> Request:
        place = self._access.place()
        path = place.prefix + quote(key, safe="/-_.~")
        encoded = canonical_query(query) if query else ""
        url = f"{place.origin}{path}?{encoded}" if encoded else place.origin + path
        sent = {**headers, **self._shared} if headers else self._shared
        credentials = self._access.credentials()
        if credentials is None:
            lines = [f"{name}: {value}" for name, value in sent.items()]
        else:
            if self._signer.region != place.region:
                self._signer = Signer(place.region)
            if not body:
                payload = EMPTY_SHA256
            elif isinstance(body, bytes):
                payload = hashlib.sha256(body).hexdigest()
            else:
                payload = UNSIGNED_PAYLOAD
            lines = self._signer.sign(credentials, method, place.host, path, encoded, sent, payload)
        if body is not None:
            lines.append("Expect:")  # Waiting for leave to send costs a round trip.
        return Request(method=method, url=url, headers=lines, body=body)

    def _copied(self, source: ObjectInfo) -> dict[str, str]:
        headers = {"x-amz-copy-source": f"/{self._bucket}/{quote(source.key, safe='/-_.~')}"}
        if source.version is not None:
            headers["x-amz-copy-source-if-match"] = source.version
        return headers
