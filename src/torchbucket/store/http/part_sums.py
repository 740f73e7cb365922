"""The check of an object that was read in parts: what it should sum to, and which parts are suspect if it does not."""

from __future__ import annotations

from torchbucket.errors import NotFoundError, ObjectChangedError, PreconditionFailedError, StoreError
from torchbucket.store.arguments import Bytes
from torchbucket.store.http.checksums import Checksum, mismatch
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.operation import Answer, Operation, Request

__all__ = ["ChecksumQuery", "PartSums"]


class PartSums:
    """The checksums of an object's parts, of this fetch of each and of the one before.

    Not safe for use by several threads.

    Args:
        most_fetches: how often parts are fetched, the first time included, before a wrong sum is reported.
    """

    def __init__(self, most_fetches: int) -> None:
        self._most_fetches = most_fetches
        self._fetches = 1
        self._lengths: dict[int, int] = {}
        self._sums: dict[int, int] = {}
        self._before: dict[int, int] = {}

    @property
    def expected(self) -> bool:
        """Whether the parts make a whole object, which can be compared."""
        return bool(self._lengths)

    def expect(self, starts: range, stop: int) -> None:
        """Name the parts that make the object: where each begins, and where the last ends."""
        self._lengths = {start: min(start + starts.step, stop) - start for start in starts}

    def arrived(self, start: int, data: Bytes, checksum: Checksum | None) -> None:
        """Sum a part that has just arrived, while it is in the processor's cache, if it is known how."""
        if start in self._lengths and checksum is not None and checksum.algorithm.combine is not None:
            self._sums[start] = checksum.algorithm.compute(data)

    def suspects(self, checksum: Checksum, whole: memoryview, uri: str) -> list[int]:
        """Return where the parts begin that are to be fetched again; none where the object is right.

        Args:
            checksum: what the provider says of the object; one that cannot be combined proves nothing and accuses none.
            whole: the object's bytes.
            uri: the object's address.

        Raises:
            ChecksumError: the same bytes came twice, or parts were fetched as often as is allowed.
        """
        algorithm = checksum.algorithm
        if algorithm.combine is None:
            return []
        computed = 0
        for start, length in self._lengths.items():
            if start not in self._sums:
                self._sums[start] = algorithm.compute(whole[start : start + length])
            computed = algorithm.combine(computed, self._sums[start], length)
        if computed == checksum.value:
            return []
        changed = [start for start, value in self._sums.items() if self._before.get(start) != value]
        if not changed or self._fetches >= self._most_fetches:
            error = mismatch(uri, checksum, computed, what=f"its {len(self._lengths)} ranges together")
            raise error.amend(attempts=self._fetches)
        self._fetches += 1
        self._before.update(self._sums)
        for start in changed:
            del self._sums[start]
        return sorted(changed)


class ChecksumQuery(Operation[tuple[ObjectInfo, Checksum | None]]):
    """Asks for the description of an object and the checksum that the answers to ranges do not tell."""

    def __init__(self, dialect: Dialect, key: str, *, version: str | None) -> None:
        super().__init__("head_object", key, dialect.address(key))
        self._dialect = dialect
        self._version = version

    def build(self) -> Request:
        """Ask by HEAD."""
        return self._dialect.head_request(self.key, version=self._version, checksums=True)

    def finish(self, lines: list[bytes]) -> tuple[ObjectInfo, Checksum | None]:
        """Read the answer's headers."""
        answer = Answer(lines)
        if answer.status == 200:
            info = self._dialect.info(self.key, answer, int(answer.headers.get("content-length", "0")))
            return info, self._dialect.checksum(answer)
        failure = self._dialect.failure(self.name, self.key, answer)
        if isinstance(failure, PreconditionFailedError | NotFoundError) and self._version is not None:
            raise ObjectChangedError(
                f"{self.name} {self.uri}: the object no longer has the version {self._version}: it was overwritten or "
                "removed while it was read; list or head it again",
                operation=self.name,
                uri=self.uri,
                status=answer.status,
            )
        if isinstance(failure, StoreError):
            failure.message += "; StoreConfig(verify_checksums=False) reads without asking for the checksum"
        raise failure
