"""Resumable uploads: sessions that outlast a request, a connection and, within limits, their own end.

*Source*: Cloud Storage documentation, resumable uploads: chunks of a multiple of 256 KiB save for the last, 308 with
what is persisted, `bytes */N` to ask for it, 499 after a cancellation.
"""

import asyncio
import time
import uuid
from collections import OrderedDict
from dataclasses import replace
from urllib.parse import quote

from buckettestbed.gcs.hashes import Stated, parse_hashes, verify_received
from buckettestbed.gcs.json.call import Call
from buckettestbed.gcs.json.chunks import Chunk, parse_chunk
from buckettestbed.gcs.json.errors import JsonError
from buckettestbed.gcs.json.metadata import stated_attributes, stated_hashes
from buckettestbed.gcs.json.uploads import object_name
from buckettestbed.gcs.preconditions import Preconditions
from buckettestbed.model.contents import DroppedContent, Incoming
from buckettestbed.model.objects import Attributes, Bucket, StoredObject
from buckettestbed.serving.messages import Response

__all__ = ["CHUNK_BYTES", "ResumableSession", "Sessions"]

CHUNK_BYTES = 256 << 10
"""Unit of what a session persists. *Source*: Cloud Storage documentation, resumable uploads."""

_ENDED_LIMIT = 1000
"""Sessions whose end is remembered, so that a client that lost the answer can ask again. *Source*: ours; GCS keeps them
for a week."""


class ResumableSession:
    """One open resumable upload.

    Args:
        key: of the object to be.
        attributes: of the object to be.
        conditions: on the object that the upload replaces.
        hashes: that the object's bytes shall have; each request of the session may add to them.
        total_bytes: its size, where it is known.
        incoming: takes the bytes.
    """

    def __init__(
        self,
        *,
        key: str,
        attributes: Attributes,
        conditions: Preconditions,
        hashes: Stated,
        total_bytes: int | None,
        incoming: Incoming,
    ) -> None:
        self.key = key
        self.attributes = attributes
        self.conditions = conditions
        self.hashes = hashes
        self.total_bytes = total_bytes
        self.incoming = incoming
        self.created_s = time.time()
        self.received_bytes = 0
        self._ended = False
        self.lock = asyncio.Lock()

    def ended(self) -> bool:
        """Returns whether it takes no more."""
        return self._ended

    def end(self) -> None:
        """Takes no more."""
        self._ended = True

    def discard(self) -> None:
        """Takes no more, and frees what arrived."""
        self.end()
        self.incoming.discard()


class Sessions:
    """Opens sessions, takes their chunks, and remembers how the latest ended."""

    def __init__(self) -> None:
        self._ended: OrderedDict[str, StoredObject | None] = OrderedDict()
        """The object that a session became, None for one that was cancelled or failed."""

    async def start(self, call: Call) -> Response:
        """Opens a session; the answer's Location is where its chunks go."""
        bucket = call.bucket()
        resource = await call.document()
        key = object_name(call, resource)
        call.conditions.check_write(bucket.objects.get(key))
        length = call.headers.get("x-upload-content-length", "")
        if length and not (length.isascii() and length.isdecimal() and len(length) <= 19):
            raise JsonError(400, f"X-Upload-Content-Length is {length[:40]!r}; expected a number of bytes.")
        session = ResumableSession(
            key=key,
            attributes=stated_attributes(resource, call.query, call.headers.get("x-upload-content-type", "")),
            conditions=call.conditions,
            hashes=parse_hashes(call.headers.get("x-goog-hash", "")) | stated_hashes(resource),
            total_bytes=int(length) if length else None,
            incoming=call.buckets.receive(),
        )
        upload_id = uuid.uuid4().hex
        bucket.sessions[upload_id] = session
        location = (
            f"{call.endpoint}/upload/storage/v1/b/{bucket.name}/o?uploadType=resumable&name={quote(key, safe='')}"
            f"&upload_id={upload_id}"
        )
        return Response(status=200, headers=[(b"location", location.encode())])

    def key(self, bucket: Bucket | None, upload_id: str) -> str:
        """Returns the key that a session is for, empty where it is not known."""
        session = None if bucket is None else bucket.sessions.get(upload_id)
        return "" if session is None else session.key

    async def take(self, call: Call) -> Response:
        """Takes a chunk, or says what is persisted; the last chunk publishes the object."""
        bucket, upload_id = call.bucket(), call.query["upload_id"]
        session = self._session(bucket, upload_id)
        if session is None:
            return self._ended_answer(call, bucket, upload_id)
        chunk = parse_chunk(call.request)
        if chunk.is_query and session.lock.locked():
            return _progress(session)  # A query need not wait for the chunk that is arriving.
        async with session.lock:
            if session.ended():
                return self._ended_answer(call, bucket, upload_id)
            try:
                self._agree_on_total(session, chunk)
                session.hashes |= parse_hashes(call.headers.get("x-goog-hash", ""))
                if not chunk.is_query:
                    await _receive(call, session, chunk)
                if session.received_bytes != session.total_bytes:
                    return _progress(session)
                return await self._publish(call, bucket, upload_id, session)
            finally:
                if session.ended():
                    bucket.sessions.pop(upload_id, None)

    async def cancel(self, call: Call) -> Response:
        """Ends a session and frees what arrived."""
        bucket, upload_id = call.bucket(), call.query["upload_id"]
        session = self._session(bucket, upload_id)
        if session is None or session.ended():
            raise JsonError(410) if upload_id in self._ended else _unknown_session()
        session.discard()
        del bucket.sessions[upload_id]
        self._remember(upload_id, None)
        return Response(status=499)

    def _session(self, bucket: Bucket, upload_id: str) -> ResumableSession | None:
        session = bucket.sessions.get(upload_id)
        return session if isinstance(session, ResumableSession) else None

    def _ended_answer(self, call: Call, bucket: Bucket, upload_id: str) -> Response:
        """Returns the object that a session became; raises JsonError (404, 410) for another."""
        if upload_id not in self._ended:
            raise _unknown_session()
        found = self._ended[upload_id]
        if found is None:
            raise JsonError(410)
        return call.answer_with(bucket, found)

    def _remember(self, upload_id: str, found: StoredObject | None) -> None:
        self._ended[upload_id] = found
        if len(self._ended) > _ENDED_LIMIT:
            self._ended.popitem(last=False)

    def _agree_on_total(self, session: ResumableSession, chunk: Chunk) -> None:
        """Learns the object's size; raises JsonError (400) where it is not what was said or sent before."""
        if chunk.total_bytes is None:
            return
        if session.total_bytes is not None and session.total_bytes != chunk.total_bytes:
            raise JsonError(
                400, f"The upload's size is {session.total_bytes} bytes; the request says {chunk.total_bytes}."
            )
        if chunk.total_bytes < session.received_bytes:
            raise JsonError(
                400, f"{session.received_bytes} bytes are persisted; the request says {chunk.total_bytes} in all."
            )
        session.total_bytes = chunk.total_bytes

    async def _publish(self, call: Call, bucket: Bucket, upload_id: str, session: ResumableSession) -> Response:
        """Makes the object of a session whose bytes are all there. A wrong hash, or a condition that no longer holds,
        ends the session too."""
        session.end()
        self._remember(upload_id, None)
        received = await session.incoming.finish()
        await verify_received(session.hashes, received)
        found = call.buckets.put(
            bucket,
            session.key,
            content=received.content,
            etag=call.buckets.etag(received),
            attributes=session.attributes,
            check=session.conditions.check,
        )
        # Without the bytes, which go when the object does.
        dropped = DroppedContent(size_bytes=found.content.size_bytes, crc32c=found.content.crc32c)
        self._remember(upload_id, replace(found, content=dropped))
        return call.answer_with(bucket, found)


async def _receive(call: Call, session: ResumableSession, chunk: Chunk) -> None:
    """Takes the bytes of a chunk that are not persisted yet.

    What arrives is persisted in units of 256 KiB, also when the connection breaks in the middle; what is less is kept
    only where it ends the object.
    """
    assert chunk.start is not None
    if chunk.start > session.received_bytes:
        raise JsonError(
            400, f"The chunk begins at byte {chunk.start}; {session.received_bytes} bytes are persisted before it."
        )
    skip_bytes = session.received_bytes - chunk.start
    limit = session.total_bytes if chunk.stop is None else chunk.stop
    at, held, held_bytes = chunk.start, [], 0
    async for piece in call.request.body.chunks():
        at += len(piece)
        if limit is not None and at > limit:
            raise JsonError(400, f"The chunk has bytes beyond {limit}, where it ends.")
        if skip_bytes:
            skipped = min(skip_bytes, len(piece))
            skip_bytes -= skipped
            piece = piece[skipped:]
        if session.ended():
            raise JsonError(499)
        held.append(piece)
        held_bytes += len(piece)
        if held_bytes >= CHUNK_BYTES:
            joined = b"".join(held)
            whole_bytes = held_bytes // CHUNK_BYTES * CHUNK_BYTES
            session.incoming.write(joined[:whole_bytes])
            session.received_bytes += whole_bytes
            held, held_bytes = [joined[whole_bytes:]], held_bytes - whole_bytes
    total_bytes = at if chunk.stop is None and session.total_bytes is None else session.total_bytes
    if chunk.stop is not None and at != chunk.stop:
        raise JsonError(400, f"The chunk states {chunk.stop - chunk.start} bytes; {at - chunk.start} arrived.")
    if total_bytes is not None and at == total_bytes:
        if session.ended():
            raise JsonError(499)
        session.incoming.write(b"".join(held))
        session.received_bytes += held_bytes
        session.total_bytes = total_bytes
    elif at - chunk.start < CHUNK_BYTES:
        raise JsonError(
            400,
            f"{at - chunk.start} bytes arrived; every chunk but the last needs {CHUNK_BYTES} or more, best a multiple.",
        )


def _unknown_session() -> JsonError:
    return JsonError(404, "The upload session does not exist: it ended long ago, or never began.")


def _progress(session: ResumableSession) -> Response:
    """Returns a 308 that says what is persisted."""
    headers = [(b"range", b"bytes=0-%d" % (session.received_bytes - 1))] if session.received_bytes else []
    return Response(status=308, headers=headers)
