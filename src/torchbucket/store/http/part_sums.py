"""The check of an object that was read in parts: what it should sum to, and which parts are suspect if it does not."""

from __future__ import annotations

from collections.abc import Sequence

from torchbucket.errors import NotFoundError, PreconditionFailedError, StoreError
from torchbucket.store.base import changed
from torchbucket.store.http.checksums import Algorithm, Checksum, combined, mismatch
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.scatter import Part
from torchbucket.store.transport.operation import Answer, Operation, Request

__all__ = ["ChecksumQuery", "PartSums"]


class PartSums:
    """The checksums of the parts that make an object, of this fetch of each and of the one before.

    Not safe for use by several threads.

    Args:
        parts: in order, without gaps.
        most_fetches: how often parts are fetched, the first time included, before a wrong sum is reported.
    """

    def __init__(self, parts: Sequence[Part], most_fetches: int) -> None:
        self._parts = parts
        self._most_fetches = most_fetches
        self._fetches = 1
        self._sums: dict[Part, Checksum] = {}
        self._before: dict[Part, Checksum] = {}

    def arrived(self, part: Part, checksum: Checksum | None) -> None:
        """Sum a part that has just arrived, while it is in the processor's cache, if it is known how."""
        if checksum is not None and checksum.algorithm.combine is not None:
            self._sums[part] = _sum(part, checksum.algorithm)

    def suspects(self, checksum: Checksum, uri: str) -> list[Part]:
        """Return the parts that are to be fetched again; none where the object is right.

        Args:
            checksum: what the provider says of the object; one that cannot be combined proves nothing and accuses none.
            uri: the object's address.

        Raises:
            ChecksumError: the same bytes came twice, or parts were fetched as often as is allowed.
        """
        if checksum.algorithm.combine is None:
            return []
        for part in self._parts:
            if part not in self._sums:
                self._sums[part] = _sum(part, checksum.algorithm)
        whole = combined(checksum.algorithm, ((self._sums[part], part.stop - part.start) for part in self._parts))
        if whole == checksum:
            return []
        assert whole is not None
        changed = [part for part in self._parts if self._before.get(part) != self._sums[part]]
        if not changed or self._fetches >= self._most_fetches:
            error = mismatch(uri, checksum, whole.value, what=f"its {len(self._parts)} ranges together")
            raise error.amend(attempts=self._fetches)
        self._fetches += 1
        self._before.update(self._sums)
        for part in changed:
            del self._sums[part]
        return changed


def _sum(part: Part, algorithm: Algorithm) -> Checksum:
    """The checksum of a part, wherever its bytes are."""
    return algorithm.of(memory for _, memory in part.pieces)


class ChecksumQuery(Operation[tuple[ObjectInfo, Checksum | None]]):
    """Asks for the description of an object and the checksum that the answers to ranges do not tell."""

    def __init__(self, dialect: Dialect, key: str, *, version: str | None) -> None:
        super().__init__("head_object", key, dialect.address(key))
        self._dialect = dialect
        self._version = version

    def build(self) -> Request:
        return self._dialect.requests.head_request(self.key, version=self._version, checksums=True)

    def finish(self, lines: list[bytes]) -> tuple[ObjectInfo, Checksum | None]:
        answer = Answer(lines)
        if answer.status == 200:
            info = self._dialect.answers.described(self.name, self.key, answer)
            return info, self._dialect.answers.checksum(answer)
        failure = self._dialect.answers.failure(self.name, self.key, answer)
        if isinstance(failure, PreconditionFailedError | NotFoundError) and self._version is not None:
            raise changed(self.name, self.uri, self._version, answer.status)
        if isinstance(failure, StoreError):
            failure.message += "; StoreConfig(verify_checksums=False) reads without asking for the checksum"
        raise failure
