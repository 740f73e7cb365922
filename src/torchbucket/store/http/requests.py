"""The requests that the machinery behind every provider makes, each spelled by the provider's own class."""

from __future__ import annotations

from typing import Protocol

from torchbucket.store.conditions import Condition
from torchbucket.store.http.uploads import UploadedPart
from torchbucket.store.transport.body import Body
from torchbucket.store.transport.operation import Request

__all__ = ["Requests"]


class Requests(Protocol):
    """Builds one provider's requests for one bucket, signed with credentials that are valid now.

    All may be called from any thread; only ``prepare`` may wait.
    """

    def prepare(self) -> None:
        """Find credentials and endpoint, on the caller's thread, since that may ask the network."""
        ...

    def renew(self) -> None:
        """Replace locks in a forked child."""
        ...

    def get_request(self, key: str, *, start: int | None, stop: int | None, version: str | None) -> Request:
        """Ask for the bytes ``[start, stop)``, or with ``start`` None for all; of that version only, if any."""
        ...

    def head_request(self, key: str, *, version: str | None = None, checksums: bool = False) -> Request:
        """Ask for an object's description in headers, and for its checksum where that is not told anyway."""
        ...

    def put_request(self, key: str, body: Body, checksum: str, *, condition: Condition | None) -> Request:
        """Send an object's bytes."""
        ...

    def delete_request(self, key: str, condition: Condition | None) -> Request:
        """Ask for an object's removal."""
        ...

    def page_request(self, prefix: str, *, start_after: str, token: str | None) -> Request:
        """Ask for one page of a listing."""
        ...

    def begin_request(self, key: str) -> Request:
        """Open an upload."""
        ...

    def part_request(self, key: str, upload_id: str, number: int, body: Body, checksum: str) -> Request:
        """Send one part."""
        ...

    def complete_request(
        self, key: str, upload_id: str, parts: list[UploadedPart], *, condition: Condition | None
    ) -> Request:
        """Name the parts that make the object."""
        ...

    def abort_request(self, key: str, upload_id: str) -> Request:
        """Give an upload up."""
        ...

    def uploads_request(self, prefix: str, marker: tuple[str, str] | None) -> Request:
        """Ask for one page of the open uploads."""
        ...
