"""The requests of S3's REST API for one bucket."""

from __future__ import annotations

import hashlib
from typing import Final
from urllib.parse import quote

from torchbucket.config import StoreConfig
from torchbucket.store.conditions import Condition
from torchbucket.store.http.checksums import ALGORITHMS
from torchbucket.store.http.uploads import UploadedPart, completion, sum_of_parts
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.s3.access import Access
from torchbucket.store.s3.sigv4 import EMPTY_SHA256, UNSIGNED_PAYLOAD, Signer, canonical_query
from torchbucket.store.transport.body import Body
from torchbucket.store.transport.operation import Request

__all__ = ["S3Requests"]

# A checksum that covers the object's bytes, rather than its parts' checksums.
_OF_OBJECT: Final = {"x-amz-checksum-type": "FULL_OBJECT"}


class S3Requests:
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
        self._bucket = bucket
        self._page_size = str(config.list_page_size)
        self._access = access
        self._signer = Signer("")
        self._shared = {"x-amz-request-payer": "requester"} if config.requester_pays else {}
        self._encryption: dict[str, str] = {}
        if config.sse is not None:
            self._encryption["x-amz-server-side-encryption"] = config.sse
        if config.sse_kms_key_id is not None:
            self._encryption["x-amz-server-side-encryption-aws-kms-key-id"] = config.sse_kms_key_id
        self._verifies = config.verify_checksums
        self._upload_sum = ALGORITHMS[config.upload_checksum]
        self._sum_header = f"x-amz-checksum-{self._upload_sum.name}"
        self.sum_element = f"Checksum{self._upload_sum.name.upper()}"
        """What an object's or part's checksum is called in documents."""

    def prepare(self) -> None:
        """Find endpoint and credentials, on the caller's thread."""
        self._access.prepare()

    def renew(self) -> None:
        """Replace locks in a forked child."""
        self._access.renew()

    def get_request(self, key: str, *, start: int | None, stop: int | None, version: str | None) -> Request:
        """Ask for a range of an object, or all of it, of one version if one is given."""
        headers = {}
        if start is None:
            if self._verifies:
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

    def put_request(self, key: str, body: Body, checksum: str, *, condition: Condition | None) -> Request:
        """Send an object's bytes."""
        headers = {self._sum_header: checksum, **self._encryption, **_condition_headers(condition)}
        return self.request("PUT", key, headers=headers, body=body, once=condition is not None and not body)

    def delete_request(self, key: str, condition: Condition | None) -> Request:
        """Remove an object."""
        return self.request("DELETE", key, headers=_condition_headers(condition))

    def copy_request(self, source: ObjectInfo, target_key: str) -> Request:
        """Copy an object."""
        return self.request("PUT", target_key, headers={**self._copied(source), **self._encryption}, body=b"")

    def page_request(self, prefix: str, *, start_after: str, token: str | None) -> Request:
        """Ask for one page of a listing."""
        query = {"list-type": "2", "encoding-type": "url", "max-keys": self._page_size}
        if prefix:
            query["prefix"] = prefix
        if token is not None:
            query["continuation-token"] = token
        elif start_after:
            query["start-after"] = start_after
        return self.request("GET", "", query=query)

    def begin_request(self, key: str) -> Request:
        """Open an upload whose parts carry a CRC, and its object the CRC that follows from theirs."""
        sums = {"x-amz-checksum-algorithm": self._upload_sum.name.upper(), **_OF_OBJECT}
        return self.request("POST", key, query={"uploads": ""}, headers={**sums, **self._encryption}, body=b"")

    def part_request(self, key: str, upload_id: str, number: int, body: Body, checksum: str) -> Request:
        """Send one part."""
        query = {"partNumber": str(number), "uploadId": upload_id}
        return self.request("PUT", key, query=query, headers={self._sum_header: checksum}, body=body)

    def copy_part_request(
        self, source: ObjectInfo, target_key: str, upload_id: str, number: int, start: int, stop: int
    ) -> Request:
        """Have the server take one part from another object."""
        query = {"partNumber": str(number), "uploadId": upload_id}
        headers = {**self._copied(source), "x-amz-copy-source-range": f"bytes={start}-{stop - 1}"}
        return self.request("PUT", target_key, query=query, headers=headers, body=b"")

    def complete_request(
        self, key: str, upload_id: str, parts: list[UploadedPart], *, condition: Condition | None
    ) -> Request:
        """Name the parts that make the object, and its checksum.

        The checksum is told beforehand only where it is the CRC-64/NVME: services that know the others may be older
        than checksums of full objects, and would compare it with that of the parts' checksums.
        """
        headers = {
            "content-type": "application/xml",
            **_OF_OBJECT,
            **_condition_headers(condition),
        }
        whole = sum_of_parts(self._upload_sum, parts)
        if whole is not None and self._upload_sum.name == "crc64nvme":
            headers[self._sum_header] = whole.text
        body = completion(parts, checksum_element=self.sum_element)
        return self.request("POST", key, query={"uploadId": upload_id}, headers=headers, body=body)

    def abort_request(self, key: str, upload_id: str) -> Request:
        """Give an upload up."""
        return self.request("DELETE", key, query={"uploadId": upload_id})

    def uploads_request(self, prefix: str, marker: tuple[str, str] | None) -> Request:
        """Ask for one page of the open uploads."""
        query = {"uploads": "", "encoding-type": "url", "max-uploads": self._page_size}
        if prefix:
            query["prefix"] = prefix
        if marker is not None:
            query["key-marker"] = marker[0]
            if marker[1]:
                query["upload-id-marker"] = marker[1]
        return self.request("GET", "", query=query)

    def request(
        self,
        method: str,
        key: str,
        *,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        body: bytes | Body | None = None,
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
