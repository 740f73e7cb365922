"""The operations of Cloud Storage that may need to look again, or take more than one request."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torchbucket.errors import NotFoundError, ObjectChangedError, PreconditionFailedError, StoreError
from torchbucket.store.base import changed
from torchbucket.store.conditions import Condition
from torchbucket.store.gcs.answers import CRC32C, GcsAnswers
from torchbucket.store.gcs.requests import GcsRequests
from torchbucket.store.gcs.resources import described, read_json
from torchbucket.store.http.checksums import Checksum, combined
from torchbucket.store.http.confirmed_write import ConfirmedWrite, UploadCompletion
from torchbucket.store.http.xml import MalformedAnswerError, text_of
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.operation import Again, Answer, NextRequest, Operation, Request

__all__ = ["CompleteUpload", "ComposeObjects", "CopyObject"]


class CompleteUpload(UploadCompletion):
    """Makes an object of an upload, which must have the CRC-32C that follows from its parts'.

    A completion can take minutes, so one whose answer was lost may still be going on when it is asked for again, and
    its upload gone before its object is there: it is looked for until the attempts end.
    *Source*: Cloud Storage XML API, "Complete a multipart upload".
    """

    _made = False

    def build(self) -> Request:
        """Name the parts or, in the second step, ask what is there."""
        return self.look_request() if self._made else super().build()

    def finish(self, lines: list[bytes]) -> ObjectInfo:
        if not self._made:
            return super().finish(lines)
        # The answer to the completion had no generation.
        answer = Answer(lines, self.body())
        info = self.answers.described(self.name, self.key, answer)
        return self._checked(info, self.answers.stored_sum(answer))

    def written(self, answer: Answer) -> ObjectInfo:
        self.answers.read(
            self.name, self.key, answer, lambda answer: text_of(answer.body, "CompleteMultipartUploadResult", "ETag")
        )
        info = self.answers.info(self.key, answer, self.size_bytes)
        if info.version is None:
            self._made = True
            raise NextRequest
        return self._checked(info, self.answers.stored_sum(answer))

    def found(self, answer: Answer) -> ObjectInfo | None:
        """Describe the object if it is ours; where the upload is gone without one, look again."""
        info = super().found(answer)
        if info is None and isinstance(self.refusal, NotFoundError):
            raise Again(self.refusal)
        return info

    def is_ours(self, info: ObjectInfo, checksum: Checksum | None) -> bool:
        return info.size_bytes == self.size_bytes and checksum is not None and checksum == self.checksum

    def _checked(self, info: ObjectInfo, checksum: Checksum | None) -> ObjectInfo:
        if info.size_bytes == self.size_bytes and checksum in (None, self.checksum):
            return info
        said = "none" if checksum is None else checksum.text
        expected = "unknown" if self.checksum is None else self.checksum.text
        raise self.error(
            f"the parts make {self.size_bytes} bytes with the CRC-32C {expected}; the object "
            f"has {info.size_bytes} with {said}: it was damaged, or replaced at the same moment; read it again, or "
            "write it anew",
            StoreError,
        )


class CopyObject(Operation[ObjectInfo]):
    """Copies an object of any size; a copy to another place or storage class goes on over several requests.

    Each of them that gets on may take as long as any request. *Source*: Cloud Storage JSON API, "Objects: rewrite".
    """

    def __init__(self, requests: GcsRequests, answers: GcsAnswers, source: ObjectInfo, target_key: str) -> None:
        super().__init__("copy_object", target_key, answers.address(target_key))
        self._requests = requests
        self._answers = answers
        self._source = source
        self._token: str | None = None

    def build(self) -> Request:
        """Ask for the copy, or for its next stretch."""
        return self._requests.rewrite_request(self._source, self.key, self._token)

    def finish(self, lines: list[bytes]) -> ObjectInfo:
        answer = Answer(lines, self.body())
        if answer.status != 200:
            failure = self._answers.failure(self.name, self._source.key, answer)
            if isinstance(failure, PreconditionFailedError):
                uri = self._answers.address(self._source.key)
                raise changed(self.name, uri, self._source.version, answer.status) from failure
            raise failure
        result = self._answers.read(self.name, self.key, answer, self._result)
        if isinstance(result, ObjectInfo):
            return result
        self._token = result
        raise NextRequest

    def _result(self, answer: Answer) -> ObjectInfo | str:
        """The object that was made, or the token with which to go on."""
        document = read_json(answer.body)
        if document.get("done") is True:
            return described(document.get("resource"), self.key)
        token = document.get("rewriteToken")
        if not isinstance(token, str) or not token:
            raise MalformedAnswerError("the copy is not done, and the answer does not say how to go on")
        return token


class ComposeObjects(ConfirmedWrite):
    """Joins up to 32 objects, each pinned to its generation.

    Repeating it is harmless, since its sources stay as they were, unless the target is one of them, or a condition was
    given. Where an answer was lost and the repetition is refused, an object that is there counts as made if it has the
    CRC-32C that follows from the sources'. They are asked for theirs then, or before where the target is one of them.
    """

    def __init__(
        self,
        requests: GcsRequests,
        answers: GcsAnswers,
        sources: Sequence[ObjectInfo],
        target_key: str,
        *,
        condition: Condition | None,
    ) -> None:
        super().__init__("compose_object", requests, answers, target_key, condition)
        self._compose_request = partial(requests.compose_request, sources, target_key, condition=condition)
        self._sources = sources
        self._sums: list[Checksum | None] = []
        self._sums_needed = any(source.key == target_key for source in sources)
        self._candidate: tuple[ObjectInfo, Checksum] | None = None

    def build(self) -> Request:
        """Ask for the next source's checksum where that is needed, else join or look."""
        if not self._asks_source:
            return super().build()
        source = self._sources[len(self._sums)]
        return self.requests.head_request(source.key, version=source.version, checksums=True)

    def finish(self, lines: list[bytes]) -> ObjectInfo:
        try:
            return self._note_source(Answer(lines)) if self._asks_source else super().finish(lines)
        except PreconditionFailedError as refusal:
            if self.condition is not None:
                raise
            names = ", ".join(repr(source.key) for source in self._sources[:3])
            error = self.error(
                f"a source ({names}{', …' * (len(self._sources) > 3)}) no longer has the "
                "version that was asked for: it was overwritten since; list or head the sources again",
                ObjectChangedError,
            )
            raise error.amend(status=refusal.status) from refusal

    def write_request(self) -> Request:
        return self._compose_request()

    def written(self, answer: Answer) -> ObjectInfo:
        return self.answers.read(
            self.name, self.key, answer, lambda answer: described(read_json(answer.body), self.key)
        )

    def is_ours(self, info: ObjectInfo, checksum: Checksum | None) -> bool:
        """Whether the object has the bytes of the sources; ask for their checksums first where they are not known."""
        if checksum is None or info.size_bytes != sum(source.size_bytes for source in self._sources):
            return False
        if len(self._sums) < len(self._sources):
            self._candidate, self._sums_needed = (info, checksum), True
            raise NextRequest
        sizes = (source.size_bytes for source in self._sources)
        return checksum == combined(CRC32C, zip(self._sums, sizes, strict=True))

    @property
    def _asks_source(self) -> bool:
        return self._sums_needed and len(self._sums) < len(self._sources)

    def _note_source(self, answer: Answer) -> ObjectInfo:
        if answer.status != 200:
            failure = self.answers.failure(self.name, self._sources[len(self._sums)].key, answer)
            raise failure if self.refusal is None or isinstance(failure, Again) else self.refusal
        self._sums.append(self.answers.stored_sum(answer))
        if self._asks_source or self.refusal is None or self._candidate is None:
            raise NextRequest
        if self.is_ours(*self._candidate):
            return self._candidate[0]
        raise self.refusal
