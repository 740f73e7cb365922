"""The operations of Cloud Storage that may need to look again, or take more than one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchbucket.errors import NotFoundError, ObjectChangedError, PreconditionFailedError, StoreError, TransportError
from torchbucket.store.conditions import Condition
from torchbucket.store.gcs.resources import CRC32C, StoredObject, stored_crc32c
from torchbucket.store.http.dialect import UploadedPart
from torchbucket.store.http.publication import Publication
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.operation import Again, Answer, Onward, Operation, Request

if TYPE_CHECKING:
    from torchbucket.store.gcs.dialect import GcsDialect

__all__ = ["CompleteUpload", "ComposeObjects", "CopyObject", "PutObject"]


class _GcsPublication(Publication):
    """A publication that looks at the object's metadata, and knows its own object by size and CRC-32C.

    A rival that wrote the very same bytes at the same moment cannot be told apart.
    """

    def __init__(self, name: str, dialect: GcsDialect, key: str, condition: Condition | None) -> None:
        super().__init__(name, key, dialect.address(key), condition)
        self._dialect = dialect

    def _look_request(self) -> Request:
        return self._dialect.metadata_request(self.key)

    def _found_ours(self, answer: Answer) -> ObjectInfo | None:
        if answer.status == 200:
            found = self._dialect.resource(self.name, self.key, answer)
            return found.info if self._is_ours(found) else None
        failure = self._dialect.failure(self.name, self.key, answer)
        if isinstance(failure, Again):
            raise failure
        return None

    def _is_ours(self, found: StoredObject) -> bool:
        raise NotImplementedError


class PutObject(_GcsPublication):
    """Writes an object in one request."""

    def __init__(
        self, dialect: GcsDialect, key: str, body: memoryview, checksum: str, *, condition: Condition | None
    ) -> None:
        super().__init__("put_object", dialect, key, condition)
        self._body = body
        self._checksum = checksum

    def _write_request(self) -> Request:
        return self._dialect.put_request(self.key, self._body, self._checksum, condition=self._condition)

    def _written(self, answer: Answer) -> ObjectInfo:
        if answer.status not in (200, 201):
            raise self._refused(self._dialect.failure(self.name, self.key, answer))
        self._dialect.check_stored(self.name, self.key, answer, self._checksum)
        return self._dialect.info(self.key, answer, len(self._body))

    def _is_ours(self, found: StoredObject) -> bool:
        return found.info.size_bytes == len(self._body) and found.crc32c == self._checksum


class CompleteUpload(_GcsPublication):
    """Publishes an upload, whose object must have the CRC-32C that follows from its parts'.

    A completion can take minutes, so one whose answer was lost may still be going on when it is asked for again, and
    its upload gone before its object is there: it is looked for until the attempts end.
    *Source*: Cloud Storage XML API, "Complete a multipart upload".
    """

    def __init__(self, dialect: GcsDialect, key: str, upload_id: str, parts: list[UploadedPart]) -> None:
        super().__init__("complete_upload", dialect, key, None)
        self._upload_id = upload_id
        self._parts = parts
        self._size_bytes = sum(part.size_bytes for part in parts)
        self._crc32c = _joined_crc32c(parts)
        self._published = False

    def _write_request(self) -> Request:
        return self._dialect.complete_request(self.key, self._upload_id, self._parts)

    def build(self) -> Request:
        """Publish or, in the second step, ask what is there."""
        return self._look_request() if self._published else super().build()

    def finish(self, lines: list[bytes]) -> ObjectInfo:
        """Return the description of what was made."""
        if not self._published:
            return super().finish(lines)
        # The answer to the completion had no generation.
        answer = Answer(lines, self.body())
        if answer.status != 200:
            raise self._dialect.failure(self.name, self.key, answer)
        return self._checked(self._dialect.resource(self.name, self.key, answer))

    def _written(self, answer: Answer) -> ObjectInfo:
        if answer.status != 200:
            raise self._refused(self._dialect.failure(self.name, self.key, answer))
        self._dialect.check_document(self.name, self.key, answer, "CompleteMultipartUploadResult")
        info = self._dialect.info(self.key, answer, self._size_bytes)
        if info.version is None:
            self._published = True
            raise Onward
        return self._checked(StoredObject(info=info, crc32c=stored_crc32c(answer)))

    def _found_ours(self, answer: Answer) -> ObjectInfo | None:
        info = super()._found_ours(answer)
        if info is None and isinstance(self._refusal, NotFoundError):
            raise Again(self._refusal)
        return info

    def _checked(self, found: StoredObject) -> ObjectInfo:
        if self._is_ours(found):
            return found.info
        raise StoreError(
            f"{self.name} {self.uri}: the parts make {self._size_bytes} bytes with the CRC-32C {self._crc32c}; the "
            f"object has {found.info.size_bytes} with {found.crc32c}: it was damaged, or replaced at the same moment; "
            "read it again, or write it anew",
            operation=self.name,
            uri=self.uri,
        )

    def _is_ours(self, found: StoredObject) -> bool:
        return found.info.size_bytes == self._size_bytes and found.crc32c in (None, self._crc32c)


def _joined_crc32c(parts: Sequence[UploadedPart]) -> str:
    """The CRC-32C of an object that is made of parts, each of which was sent with its own."""
    value = 0
    for part in parts:
        checksum = CRC32C.read(part.checksum or "")
        assert checksum is not None and CRC32C.combine is not None
        value = CRC32C.combine(value, checksum.value, part.size_bytes)
    return CRC32C.text(value)


class CopyObject(Operation[ObjectInfo]):
    """Copies an object of any size; a copy to another place or storage class goes on over several requests.

    *Source*: Cloud Storage JSON API, "Objects: rewrite".
    """

    def __init__(self, dialect: GcsDialect, source: ObjectInfo, target_key: str) -> None:
        super().__init__("copy_object", target_key, dialect.address(target_key))
        self._dialect = dialect
        self._source = source
        self._token: str | None = None

    def build(self) -> Request:
        """Ask for the copy, or for its next stretch."""
        return self._dialect.rewrite_request(self._source, self.key, self._token)

    def finish(self, lines: list[bytes]) -> ObjectInfo:
        """Describe the copy, once it is done."""
        answer = Answer(lines, self.body())
        if answer.status != 200:
            failure = self._dialect.failure(self.name, self._source.key, answer)
            if isinstance(failure, PreconditionFailedError):
                uri = self._dialect.address(self._source.key)
                raise ObjectChangedError(
                    f"{self.name} {self.uri}: {uri} no longer has the version {self._source.version}: it was "
                    "overwritten while it was copied; copy it again",
                    operation=self.name,
                    uri=uri,
                    status=answer.status,
                ) from failure
            raise failure
        document = self._dialect.json_of(self.name, self.key, answer)
        if document.get("done") is True:
            return self._dialect.described(self.name, self.key, document.get("resource")).info
        token = document.get("rewriteToken")
        if not isinstance(token, str) or not token:
            raise Again(
                TransportError(
                    f"{self.name} {self.uri}: the copy is not done, and the answer does not say how to go on",
                    operation=self.name,
                    uri=self.uri,
                )
            )
        self._token = token
        raise Onward


class ComposeObjects(_GcsPublication):
    """Joins up to 32 objects, each pinned to its generation.

    Repeating it is harmless, since its sources stay as they were, unless the target is one of them, or a condition was
    given. Where an answer was lost and the repetition is refused, an object that is there with the sum of the sizes
    counts as made; of a single source it must have the CRC-32C, too.
    """

    def __init__(
        self, dialect: GcsDialect, sources: Sequence[ObjectInfo], target_key: str, *, condition: Condition | None
    ) -> None:
        super().__init__("compose_object", dialect, target_key, condition)
        self._sources = sources
        self._size_bytes = sum(source.size_bytes for source in sources)
        self._candidate: StoredObject | None = None

    def finish(self, lines: list[bytes]) -> ObjectInfo:
        """Describe what was made."""
        try:
            return super().finish(lines)
        except PreconditionFailedError as refusal:
            if self._condition is not None:
                raise
            names = ", ".join(repr(source.key) for source in self._sources[:3])
            raise ObjectChangedError(
                f"{self.name} {self.uri}: a source ({names}{', …' * (len(self._sources) > 3)}) no longer has the "
                "version that was asked for: it was overwritten since; list or head the sources again",
                operation=self.name,
                uri=self.uri,
                status=refusal.status,
            ) from refusal

    def _write_request(self) -> Request:
        return self._dialect.compose_request(self._sources, self.key, condition=self._condition)

    def _written(self, answer: Answer) -> ObjectInfo:
        if answer.status != 200:
            raise self._refused(self._dialect.failure(self.name, self.key, answer))
        return self._dialect.resource(self.name, self.key, answer).info

    def _look_request(self) -> Request:
        return self._dialect.metadata_request(self.key if self._candidate is None else self._sources[0].key)

    def _found_ours(self, answer: Answer) -> ObjectInfo | None:
        candidate = self._candidate
        if candidate is None:
            return super()._found_ours(answer)
        if answer.status != 200:
            failure = self._dialect.failure(self.name, self._sources[0].key, answer)
            if isinstance(failure, Again):
                raise failure
            return None
        source = self._dialect.resource(self.name, self._sources[0].key, answer)
        return candidate.info if source.crc32c == candidate.crc32c else None

    def _is_ours(self, found: StoredObject) -> bool:
        if found.info.size_bytes != self._size_bytes:
            return False
        if len(self._sources) == 1:
            self._candidate = found
            raise Onward
        return True
