"""A read into many pieces of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from torchbucket.errors import TruncatedError
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.http.parallel_read import ParallelRead
from torchbucket.store.protocol import ObjectInfo, Read, Target
from torchbucket.store.scatter import Part, check_within, plan_parts
from torchbucket.store.transport.transport import Transport

__all__ = ["ScatterRead"]


class ScatterRead(ParallelRead[ObjectInfo]):
    """Fills targets from one object; see ``Store.submit_read_into``.

    Args:
        transport: runs the requests.
        dialect: builds them.
        read: the object, and the size and version that it must have, if any.
        targets: with flat memory.
        gap_bytes: bytes between two targets that are read rather than asked around.
        filled: called with the position of each target that is full.
        part_bytes: the most that one request asks for.
        most_fetches: how often a part is fetched where the checksum is wrong.
    """

    def __init__(
        self,
        transport: Transport,
        dialect: Dialect,
        read: Read,
        targets: Sequence[Target],
        *,
        gap_bytes: int,
        filled: Callable[[int], None] | None,
        part_bytes: int,
        most_fetches: int,
    ) -> None:
        super().__init__(transport, dialect, read, most_fetches=most_fetches)
        self._targets = targets
        self._parts = plan_parts(targets, gap_bytes=gap_bytes, part_bytes=part_bytes)
        self._filled = filled
        self._parts_left = [0] * len(targets)

    def begin(self) -> Future[ObjectInfo]:
        """Hand the requests to the transport; one asks for the description where there are no bytes to read."""
        size_bytes = self._read.size_bytes
        if size_bytes is not None:
            try:
                self._check(ObjectInfo(key=self._read.key, size_bytes=size_bytes))
            except TruncatedError as error:
                self._error = error
                self._end()
                return self._future
        self._fetch_all(self._parts or [Part(0, 0, [], [])], size_bytes=size_bytes)
        return self._future

    def _fetch(self, parts: Sequence[Part]) -> None:
        for part in parts:
            for target in part.targets:
                self._parts_left[target] += 1
        super()._fetch(parts)

    def _check(self, info: ObjectInfo) -> None:
        check_within(self._dialect.address(self._read.key), info, self._targets)

    def _arrived(self, part: Part) -> None:
        for target in part.targets:
            self._parts_left[target] -= 1
            if not self._parts_left[target] and self._filled is not None:
                self._filled(target)

    def _result(self, info: ObjectInfo) -> ObjectInfo:
        if self._filled is not None:
            for position, (_, memory) in enumerate(self._targets):
                if not memory:
                    self._filled(position)
        return info
