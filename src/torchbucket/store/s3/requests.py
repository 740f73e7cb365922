"""The requests of S3's REST API for one bucket."""

from __future__ import annotations

import hashlib
from typing import Final
from urllib.parse import quote

from torchbucket.config import StoreConfig
from torchbucket.store.conditions import Condition
from torchbucket.store.http.checksums import ALGORITHMS
from torchbucket.store.http.dialect import UploadedPart
from torchbucket.store.http.xml import completion
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.s3.access import Access
from torchbucket.store.s3.publish import combined
from torchbucket.store.s3.sigv4 import EMPTY_SHA256, UNSIGNED_PAYLOAD, Signer, canonical_query
from torchbucket.store.transport.operation import Request

__all__ = ["FULL_OBJECT", "S3Requests"]

FULL_OBJECT: Final = "FULL_OBJECT"
"""The type of a checksum that covers the object's bytes, rather than its parts' checksums."""


class S3Requests:
    """Builds each request anew for each attempt, and signs it.

    Bodies are covered by a CRC that the server checks and that it repeats in its answer (what it costs is told in
    ``torchbucket.store.http.checksums``), and not by the signature's hash. Control documents are hashed. The CRC of an
    upload in parts is that of the full object, so that readers can check it however they split it.

    Args:
        bucket: its name.
        config: endpoint, credentials, encryption and page size.
    """

    def __init__(self, bucket: str, config: StoreConfig) -> None:
        self._bucket = bucket
        self._uri = f"s3://{bucket}"
        self._config = config
        self._access = Access(bucket, config)
        self._signer: Signer | None = None
        self._shared = {"x-amz-request-payer": "requester"} if config.requester_pays else {}
        self._encryption: dict[str, str] = {}
        if config.sse is not None:
            self._encryption["x-amz-server-side-encryption"] = config.sse
        if config.sse_kms_key_id is not None:
            self._encryption["x-amz-server-side-encryption-aws-kms-key-id"] = config.sse_kms_key_id
        self.verifies = config.verify_checksums
        self.upload_sum = ALGORITHMS[config.upload_checksum]
        self.sum_header = f"x-amz-checksum-{self.upload_sum.name}"
        self.sum_element = f"Checksum{self.upload_sum.name.upper()}"

    def prepare(self) -> None:
        """Find endpoint and credentials, on the caller's thread."""
        place = self._access.place()
        if self._signer is None:
            self._signer = Signer(place.region)
        self._access.credentials()

    def renew(self) -> None:
        """Replace locks in a forked child."""
        self._access.renew()
        if self._signer is not None:
            self._signer.renew()

    def address(self, key: str) -> str:
        """The object's address."""
        return f"{self._uri}/{key}"

    def get_request(self, key: str, *, start: int | None, stop: int | None, version: str | None) -> Request:
        """Ask for a range of an object, or all of it, of one version if one is given."""
        headers = {}
        if start is None:
            if self.verifies:
                headers["x-amz-checksum-mode"] = "ENABLED"
        else:
            headers["range"] = f"bytes={start}-" if stop is None else f"bytes={start}-{stop - 1}"
        if version is not None:
            headers["if-match"] = version
        return self.request("GET", key, headers=headers)

    def head_request(self, key: str, *, version: str | None = None, checksums: bool = False) -> Request:
        """Ask for an object's description, with its stored checksum if wanted."""
        headers = {} if version is None else {"if-match": version}
        if checksums:
            headers["x-amz-checksum-mode"] = "ENABLED"
        return self.request("HEAD", key, headers=headers)

    def bucket_request(self) -> Request:
        """Ask whether the bucket is there."""
        return self.request("HEAD", "")

    def put_request(self, key: str, body: memoryview, checksum: str, *, condition: Condition | None) -> Request:
        """Send an object's bytes."""
        headers = {self.sum_header: checksum, **self._encryption, **_condition_headers(condition)}
        return self.request("PUT", key, headers=headers, body=body, once=condition is not None and not body)

    def delete_request(self, key: str, condition: Condition) -> Request:
        """Remove an object on a condition."""
        return self.request("DELETE", key, headers=_condition_headers(condition))

    def complete_request(
        self, key: str, upload_id: str, parts: list[UploadedPart], *, condition: Condition | None
    ) -> Request:
        """Name the parts that make the object, and its checksum.

        The checksum is told beforehand only where it is the CRC-64/NVME: services that know the others may be older
        than checksums of full objects, and would compare it with that of the parts' checksums.
        """
        headers = {
            "content-type": "application/xml",
            "x-amz-checksum-type": FULL_OBJECT,
            **_condition_headers(condition),
        }
        whole = combined(self.upload_sum, parts)
        if whole is not None and self.upload_sum.name == "crc64nvme":
            headers[self.sum_header] = whole.text
        body = completion(parts, checksum_element=self.sum_element)
        return self.request("POST", key, query={"uploadId": upload_id}, headers=headers, body=body)

    def request(
        self,
        method: str,
        key: str,
        *,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        body: bytes | memoryview | None = None,
        once: bool = False,
    ) -> Request:
        """Build and sign one request; a key of "" means the bucket."""
        place = self._access.place()
        path = place.prefix + quote(key, safe="/-_.~")
        encoded = canonical_query(query) if query else ""
        url = f"{place.origin}{path}?{encoded}" if encoded else place.origin + path
        sent = {**headers, **self._shared} if headers else self._shared
        credentials = self._access.credentials()
        if credentials is None:
            lines = [f"{name}: {value}" for name, value in sent.items()]
        else:
            assert self._signer is not None
            if not body:
                payload = EMPTY_SHA256
            elif isinstance(body, bytes):
                payload = hashlib.sha256(body).hexdigest()
            else:
                payload = UNSIGNED_PAYLOAD
            lines = self._signer.sign(credentials, method, place.host, path, encoded, sent, payload)
        if body is not None:
            lines.append("Expect:")  # Waiting for leave to send costs a round trip.
        return Request(method=method, url=url, headers=lines, body=body, once=once)

    def _copied(self, source: ObjectInfo) -> dict[str, str]:
        headers = {"x-amz-copy-source": f"/{self._bucket}/{quote(source.key, safe='/-_.~')}"}
        if source.version is not None:
            headers["x-amz-copy-source-if-match"] = source.version
        return headers


def _condition_headers(condition: Condition | None) -> dict[str, str]:
    if condition is None:
        return {}
    return {"if-none-match": "*"} if condition.version is None else {"if-match": condition.version}
