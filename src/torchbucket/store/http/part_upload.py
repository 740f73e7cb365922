"""An upload in parts: opened with its first part, then completed or aborted, and never left open."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final

from torchbucket.config import MIB
from torchbucket.store.conditions import Condition
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.http.temporary_objects import remove_temporaries
from torchbucket.store.http.uploads import UploadedPart
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.temporary_names import temporary_key
from torchbucket.store.transport.operation import Operation
from torchbucket.store.transport.transport import Transport

__all__ = ["PartUpload", "copy_in_parts", "write_from_memory"]

# How long an abort waits for the parts that it cut; each is cut within one turn of the transport's loop.
_CUT_TIMEOUT_S: Final = 30.0


class PartUpload:
    """One upload and the parts of it that are on their way.

    On a condition that the provider's completion does not take, the upload goes to a temporary key. What it makes there
    is then composed to the key on the condition, and removed whatever happens.

    It keeps no part's memory: what has arrived is a number, a size and a tag. Its methods are called by one thread.
    """

    def __init__(self, transport: Transport, dialect: Dialect, key: str, condition: Condition | None = None) -> None:
        self._transport = transport
        self._dialect = dialect
        self._target_key = key
        self._condition = condition
        aside = condition is not None and not dialect.conditional_uploads
        self._key = temporary_key(key) if aside else key
        self._made_aside = False
        self._upload_id: str | None = None
        self._count = 0
        self._arrived: list[UploadedPart] = []
        self._pending: set[Operation[UploadedPart]] = set()
        self._failure: BaseException | None = None

    @property
    def begun(self) -> bool:
        """Whether the server knows of the upload."""
        return self._upload_id is not None

    @property
    def count(self) -> int:
        """How many parts were made."""
        return self._count

    def begin(self) -> str:
        """Open the upload if that is still to be done, and return its id."""
        if self._upload_id is None:
            operation = self._dialect.begin_upload(self._key)
            self._transport.submit((operation,))
            try:
                self._upload_id = operation.future.result()
            except BaseException:
                # Where only the wait was interrupted, the id must be known, or nobody could abort the upload.
                wait([operation.future], timeout=_CUT_TIMEOUT_S)
                if operation.future.done() and operation.future.exception() is None:
                    self._upload_id = operation.future.result()
                raise
        return self._upload_id

    def prepare_part(self, body: memoryview) -> Operation[UploadedPart]:
        """Make the next part's operation, to be handed to ``send``; raise what made an earlier part fail."""
        if self._failure is not None:
            raise self._failure
        self._dialect.prepare()  # A write may last longer than the credentials that it began with.
        upload_id = self.begin()
        return self._count_in(self._dialect.upload_part(self._key, upload_id, self._count + 1, body))

    def prepare_copy(self, source: ObjectInfo, start: int, stop: int) -> Operation[UploadedPart]:
        """Make the next part's operation from a range of another object."""
        upload_id = self.begin()
        number = self._count + 1
        return self._count_in(self._dialect.copy_part(source, self._key, upload_id, number, start, stop))

    def _count_in(self, operation: Operation[UploadedPart]) -> Operation[UploadedPart]:
        self._count += 1
        return operation

    def _settler(self, operation: Operation[UploadedPart]) -> Callable[[Future[UploadedPart]], None]:
        def settle(done: Future[UploadedPart]) -> None:
            error = done.exception()
            if error is None:
                self._arrived.append(done.result())
            elif self._failure is None:
                self._failure = error
            self._pending.discard(operation)

        return settle

    def send(self, part: Operation[UploadedPart]) -> None:
        """Hand a prepared part to the transport."""
        self._pending.add(part)
        part.future.add_done_callback(self._settler(part))
        self._transport.submit((part,), caller=self)

    def complete(self) -> ObjectInfo:
        """Wait for all parts and publish the object."""
        wait([part.future for part in tuple(self._pending)])
        # A future wakes its waiters before it calls back, so the last parts may still be about to be noted.
        for part in tuple(self._pending):
            self._settle_now(part)
        if self._failure is not None:
            raise self._failure
        self._dialect.prepare()
        parts = sorted({part.number: part for part in self._arrived}.values(), key=lambda part: part.number)
        if self._key != self._target_key:
            return self._complete_aside(parts)
        completion = self._dialect.complete_upload(self._key, self.begin(), parts, condition=self._condition)
        info = self._transport.run(completion)
        self._upload_id = None
        return info

    def _complete_aside(self, parts: list[UploadedPart]) -> ObjectInfo:
        """Publish by way of the temporary key; where that fails, ``abort`` removes what is there."""
        completion = self._dialect.complete_upload(self._key, self.begin(), parts, condition=None)
        self._made_aside = True
        made = self._transport.run(completion)
        self._upload_id = None
        publication = self._dialect.compose_objects([made], self._target_key, condition=self._condition)
        info = self._transport.run(publication)
        remove_temporaries(self._transport, self._dialect, [self._key])
        return info

    def _settle_now(self, operation: Operation[UploadedPart]) -> None:
        error = operation.future.exception()
        if error is None:
            self._arrived.append(operation.future.result())
        elif self._failure is None:
            self._failure = error

    def abort(self) -> None:
        """Cut the parts on their way, wait until they are, and abort: one that arrives later would stay for ever."""
        pending = tuple(self._pending)
        self._transport.drop(pending)
        wait([part.future for part in pending], timeout=_CUT_TIMEOUT_S)
        upload_id, self._upload_id = self._upload_id, None
        if upload_id is None and not self._made_aside:
            return
        self._dialect.prepare()
        try:
            if upload_id is not None:
                # A part that was cut after its last byte may be stored after the abort; a second abort removes it then.
                # Source: S3 API Reference, AbortMultipartUpload.
                for _ in range(2 if pending else 1):
                    self._transport.run(self._dialect.abort_upload(self._key, upload_id))
        finally:
            if self._made_aside:
                remove_temporaries(self._transport, self._dialect, [self._key])

    def abort_soon(self) -> None:
        """Cut the parts and have the abort sent, without waiting for either."""
        self._transport.drop(tuple(self._pending))
        upload_id, self._upload_id = self._upload_id, None
        if upload_id is not None:
            self._transport.submit((self._dialect.abort_upload(self._key, upload_id),))


def write_from_memory(
    transport: Transport,
    dialect: Dialect,
    key: str,
    data: memoryview,
    *,
    condition: Condition | None,
    part_bytes: int,
) -> ObjectInfo:
    """Write an object straight from the caller's memory, which must not change meanwhile; in parts above one part.

    Atomic like a writer's: on any failure, an interrupt too, the upload is aborted.
    """
    if len(data) <= part_bytes:
        return transport.run(dialect.put_object(key, data, condition=condition))
    # In whole MiB, large enough for the provider's bound on the number of parts.
    least_bytes = -(-len(data) // dialect.most_parts)
    part_bytes = max(part_bytes, -(-least_bytes // MIB) * MIB)
    upload = PartUpload(transport, dialect, key, condition)
    try:
        for start in range(0, len(data), part_bytes):
            upload.send(upload.prepare_part(data[start : start + part_bytes]))
        return upload.complete()
    except BaseException:
        upload.abort()
        raise


def copy_in_parts(
    transport: Transport, dialect: Dialect, source: ObjectInfo, target_key: str, *, part_bytes: int
) -> ObjectInfo:
    """Copy an object that is too large for one request, part by part, on the server's side."""
    part_bytes = max(part_bytes, -(-source.size_bytes // dialect.most_parts))
    upload = PartUpload(transport, dialect, target_key)
    try:
        for start in range(0, source.size_bytes, part_bytes):
            upload.send(upload.prepare_copy(source, start, min(start + part_bytes, source.size_bytes)))
        return upload.complete()
    except BaseException:
        upload.abort()
        raise
