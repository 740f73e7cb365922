"""An upload in parts: opened with its first part, then completed or aborted, and never left open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, Final, Self

from torchbucket.errors import StoreError
from torchbucket.store.conditions import Condition
from torchbucket.store.http.checksums import Checksum
from torchbucket.store.http.clean_up import clean_up, remove_temporaries
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.http.uploads import UploadedPart
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.store_future import on_store_thread, refuse_to_wait
from torchbucket.store.temporary_names import temporary_key
from torchbucket.store.transport.body import Body
from torchbucket.store.transport.operation import Operation
from torchbucket.store.transport.transport import Transport

__all__ = ["PartUpload"]

# How long an abort waits for the parts that it cut; each is cut within one turn of the transport's loop.
_CUT_TIMEOUT_S: Final = 30.0

# How long an abort waits for the server.
_ABORT_PATIENCE_S: Final = 5.0


class PartUpload:
    """One upload and the parts of it that are on their way.

    On a condition that the provider's completion does not take, the upload goes to a temporary key. What it makes there
    is then composed to the key on the condition, and removed whatever happens.

    It keeps no part's memory: what has arrived is a number, a size and a tag. Its methods are called by one thread.

    Args:
        transport: runs the requests.
        dialect: makes them.
        key: where the object appears.
        condition: what must hold of the key then.
        most_pending: parts on their way at once; ``send`` waits where there are as many.
    """

    def __init__(
        self,
        transport: Transport,
        dialect: Dialect,
        key: str,
        condition: Condition | None = None,
        *,
        most_pending: int,
    ) -> None:
        self._transport = transport
        self._dialect = dialect
        self._target_key = key
        self._condition = condition
        aside = condition is not None and not dialect.conditional_uploads
        self._key = temporary_key(key) if aside else key
        self._made_aside = False
        self._upload_id: str | None = None
        self._most_pending = most_pending
        self._changed = threading.Condition()
        self._pending: dict[int, Operation[UploadedPart]] = {}  # by their numbers
        self._arrived: dict[int, UploadedPart] = {}
        self._failure: BaseException | None = None
        self.count = 0
        """How many parts were sent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abort()

    @property
    def pending(self) -> int:
        """How many parts are on their way."""
        return len(self._pending)

    def send(self, body: Body, checksum: Checksum, ended: Callable[[], None] | None = None) -> None:
        """Send the next part; raise what made an earlier one fail.

        Args:
            body: its bytes, which must not change before it has arrived.
            checksum: their ``upload_sum``.
            ended: called once it has arrived or failed, on the transport's thread; not where it was not sent.
        """
        self._send(
            lambda upload_id, number: self._dialect.upload_part(self._key, upload_id, number, body, checksum), ended
        )

    def send_copy(self, source: ObjectInfo, start: int, stop: int) -> None:
        """Have the server take the next part from the bytes ``[start, stop)`` of another object."""
        self._send(
            lambda upload_id, number: self._dialect.copy_part(source, self._key, upload_id, number, start, stop), None
        )

    def _send(self, part: Callable[[str, int], Operation[UploadedPart]], ended: Callable[[], None] | None) -> None:
        self.wait_for_room(self._most_pending)
        if self.count == self._dialect.most_parts:
            uri = self._dialect.address(self._target_key)
            raise StoreError(
                f"write {uri}: the object needs more than {self.count} parts; give open_writer its size_hint, or raise "
                "StoreConfig.part_size_bytes and memory_budget_bytes",
                operation="upload_part",
                uri=uri,
            )
        self._dialect.prepare()  # A write may last longer than the credentials that it began with.
        operation = part(self._begin(), self.count + 1)
        self.count += 1
        self._pending[self.count] = operation
        # By its number: a part that its own future leads back to would keep its memory until the collector comes.
        operation.future.add_done_callback(partial(self._part_ended, self.count, ended))
        try:
            self._transport.submit((operation,), caller=self)
        except Exception:  # such as no thread or descriptor left: nobody will ever end the part
            self._pending.pop(self.count, None)
            raise

    def wait_for_room(self, most_pending: int) -> None:
        """Wait until fewer than so many parts are on their way; raise what made one fail."""
        refuse_to_wait(f"write {self._dialect.address(self._target_key)}")
        with self._changed:
            self._changed.wait_for(lambda: len(self._pending) < most_pending or self._failure is not None)
            if self._failure is not None:
                raise self._failure

    def _begin(self) -> str:
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
                del operation  # An error keeps the frames that it passes, which must not keep it in turn.
                raise
        return self._upload_id

    def _part_ended(self, number: int, ended: Callable[[], None] | None, future: Future[UploadedPart]) -> None:
        error = future.exception()
        with self._changed:
            if error is None:
                self._arrived[number] = future.result()
            elif self._failure is None:
                self._failure = error
            if ended is not None:
                ended()  # before nobody waits for the part any more
            self._pending.pop(number, None)
            self._changed.notify_all()

    def complete(self) -> ObjectInfo:
        """Wait for all parts and publish the object."""
        self.wait_for_room(1)
        self._dialect.prepare()
        parts = [self._arrived[number] for number in sorted(self._arrived)]
        aside = self._key != self._target_key
        condition = None if aside else self._condition
        completion = self._dialect.complete_upload(self._key, self._begin(), parts, condition=condition)
        self._made_aside = aside
        info = self._transport.run(completion)
        self._upload_id = None
        if aside:
            composed = self._dialect.compose_objects([info], self._target_key, condition=self._condition)
            info = self._transport.run(composed)
            remove_temporaries(self._transport, self._dialect, [self._key])
            self._made_aside = False
        return info

    def abort(self) -> None:
        """Give the upload up: cut its parts, and have the server drop those that it has.

        It waits for the server for some seconds, and raises nothing: what made the caller give up matters more. Where
        the server does not answer, the abort is tried on by itself and a warning is logged. On a transport's thread it
        waits for nothing.
        """
        if on_store_thread():
            self.abort_soon()
            return
        pending = list(self._pending.values())
        self._transport.drop(pending)
        wait([part.future for part in pending], timeout=_CUT_TIMEOUT_S)
        self._failure = None  # It was raised, and holds the frames that it passed, which hold this.
        upload_id, self._upload_id = self._upload_id, None
        if upload_id is not None:
            # A part that was cut after its last byte may be stored after the abort; a second abort removes it then.
            # Source: S3 API Reference, AbortMultipartUpload.
            for _ in range(2 if pending else 1):
                aborts, what = [self._dialect.abort_upload(self._key, upload_id)], f"the open upload {upload_id}"
                if not clean_up(self._transport, self._dialect, aborts, what, patience_s=_ABORT_PATIENCE_S):
                    break
        if self._made_aside:
            remove_temporaries(self._transport, self._dialect, [self._key])

    def abort_soon(self) -> list[Future[Any]]:
        """Cut the parts and have the rest removed, without waiting for either; return what may be waited for."""
        self._transport.drop(list(self._pending.values()))
        removals = []
        upload_id, self._upload_id = self._upload_id, None
        if upload_id is not None:
            removals.append(self._dialect.abort_upload(self._key, upload_id))
        if self._made_aside:
            removals.append(self._dialect.delete_object(self._key, condition=None))
        if removals:  # else it would start a thread for nothing, which at the interpreter's exit it cannot
            self._transport.submit(removals)
        return [removal.future for removal in removals]
