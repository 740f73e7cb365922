"""Operations that change a key and may have to look afterwards whether they did, whatever the provider.

When the answer to a write is lost, the write may have happened. Repeating a plain PUT is harmless. Completing an upload
again finds no upload, and a write on a condition finds its own object: both then look at the object that is there.
"""

from __future__ import annotations

import hashlib

from torchbucket.errors import NotFoundError, PreconditionFailedError, StoreError, ThrottledError
from torchbucket.store.conditions import Condition, unmet
from torchbucket.store.http.answers import Answers, is_gone
from torchbucket.store.http.checksums import Checksum
from torchbucket.store.http.requests import Requests
from torchbucket.store.http.uploads import UploadedPart, sum_of_parts
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.body import Body
from torchbucket.store.transport.operation import Again, Answer, NextRequest, Operation, Request

__all__ = ["ConditionalDelete", "ConfirmedWrite", "PutObject", "UploadCompletion"]


class ConfirmedWrite(Operation[ObjectInfo]):
    """A write that, where its answer was lost and a second try is refused, compares the object that is there.

    It is taken for the one that was written if it has the size and the checksum, or where the server tells no checksum
    the MD5 that ETags are made of. A rival that wrote the very same bytes at the same moment cannot be told apart.

    Args:
        name: the request's kind.
        requests: the provider's requests.
        answers: the provider's answers.
        key: the object's key.
        condition: what must hold of the key.
    """

    def __init__(self, name: str, requests: Requests, answers: Answers, key: str, condition: Condition | None) -> None:
        super().__init__(name, key, answers.address(key))
        self.requests = requests
        self.answers = answers
        self.condition = condition
        self.refusal: StoreError | None = None
        self._lost = False

    def build(self) -> Request:
        """Write or, in the second step, ask what is there."""
        return self.write_request() if self.refusal is None else self.look_request()

    def finish(self, lines: list[bytes]) -> ObjectInfo:
        answer = Answer(lines, self.body())
        if self.refusal is None:
            try:
                return self.written(answer)
            except Again as again:
                # A server's error may hide that it did the work; a refusal, and being told to slow down, do not.
                status = again.error.status
                slowed = status == 503 and isinstance(again.error, ThrottledError)
                refused = slowed or (status is not None and 300 <= status < 500)
                self._lost = self._lost or not refused
                raise
            except (PreconditionFailedError, NotFoundError) as refusal:
                error = self._explained(refusal)
                if not self._lost or refusal.code == "NoSuchBucket":
                    raise error from refusal
                self.refusal = error
                raise NextRequest from refusal
        found = self.found(answer)
        if found is None:
            raise self.refusal
        return found

    def interrupted(self, lines: list[bytes]) -> Exception | None:
        """Note that the answer was lost."""
        self._lost = True
        return super().interrupted(lines)

    def write_request(self) -> Request:
        """Make the write's request."""
        raise NotImplementedError

    def written(self, answer: Answer) -> ObjectInfo:
        """Describe what was written, or raise what the answer means."""
        raise NotImplementedError

    def look_request(self) -> Request:
        """Make the request that describes the object."""
        return self.requests.head_request(self.key, checksums=True)

    def found(self, answer: Answer) -> ObjectInfo | None:
        """Describe the object if it is the one that was written, else None; raise ``Again`` to look again."""
        if answer.status == 200:
            info = self.answers.described(self.name, self.key, answer)
            return info if self.is_ours(info, self.answers.stored_sum(answer)) else None
        failure = self.answers.failure(self.name, self.key, answer)
        if isinstance(failure, Again):
            raise failure
        return None

    def is_ours(self, info: ObjectInfo, checksum: Checksum | None) -> bool:
        """Whether an object of this description and checksum is the one that was written."""
        raise NotImplementedError

    def _explained(self, refusal: StoreError) -> StoreError:
        """The error for the caller: of a condition it says what the condition was."""
        # A key that must have a version and has no object at all is answered 404.
        # Source: S3 user guide, "Add preconditions to S3 operations with conditional requests".
        condition = self.condition
        if condition is None:
            return refusal
        is_gone = condition.version is not None and refusal.code in (None, "NoSuchKey")
        if not isinstance(refusal, PreconditionFailedError) and not is_gone:
            return refusal
        error = unmet(self.name, self.uri, condition)
        return error.amend(status=refusal.status, code=refusal.code)


class PutObject(ConfirmedWrite):
    """Writes an object in one request."""

    def __init__(
        self,
        requests: Requests,
        answers: Answers,
        key: str,
        body: Body,
        checksum: Checksum,
        *,
        condition: Condition | None,
    ) -> None:
        super().__init__("put_object", requests, answers, key, condition)
        self._body = body
        self._checksum = checksum

    def write_request(self) -> Request:
        return self.requests.put_request(self.key, self._body, self._checksum.text, condition=self.condition)

    def written(self, answer: Answer) -> ObjectInfo:
        if answer.status not in (200, 201, 204):
            raise self.answers.failure(self.name, self.key, answer)
        self.answers.check_stored(self.name, self.key, answer, self._checksum.text)
        return self.answers.info(self.key, answer, len(self._body))

    def is_ours(self, info: ObjectInfo, checksum: Checksum | None) -> bool:
        if info.size_bytes != len(self._body):
            return False
        if checksum is not None:
            return checksum == self._checksum
        digest = hashlib.md5(usedforsecurity=False)
        for piece in self._body.pieces:
            digest.update(piece)
        return info.version == f'"{digest.hexdigest()}"'


class UploadCompletion(ConfirmedWrite):
    """Makes an object of an upload, whose size and checksum follow from its parts'."""

    def __init__(
        self,
        requests: Requests,
        answers: Answers,
        key: str,
        upload_id: str,
        parts: list[UploadedPart],
        condition: Condition | None,
    ) -> None:
        super().__init__("complete_upload", requests, answers, key, condition)
        self.parts = parts
        self.size_bytes = sum(part.size_bytes for part in parts)
        self.checksum = sum_of_parts(answers.upload_sum, parts)
        self._upload_id = upload_id

    def write_request(self) -> Request:
        return self.requests.complete_request(self.key, self._upload_id, self.parts, condition=self.condition)


class ConditionalDelete(Operation[None]):
    """Removes an object that has a version; where it is gone already, by a first try whose answer was lost too, it is
    done. A refusal may mean either, so the object is asked for."""

    def __init__(self, requests: Requests, answers: Answers, key: str, condition: Condition) -> None:
        super().__init__("delete_object", key, answers.address(key))
        self._requests = requests
        self._answers = answers
        self._condition = condition
        self._refused = False

    def build(self) -> Request:
        """Remove or, in the second step, ask whether the object is there."""
        if self._refused:
            return self._requests.head_request(self.key)
        return self._requests.delete_request(self.key, self._condition)

    def finish(self, lines: list[bytes]) -> None:
        """Return where the object is gone."""
        answer = Answer(lines, self.body())
        if answer.status in (200, 204):
            if self._refused:
                raise unmet(self.name, self.uri, self._condition)
            return
        failure = self._answers.failure(self.name, self.key, answer)
        if is_gone(failure):
            return
        if isinstance(failure, PreconditionFailedError) and not self._refused:
            self._refused = True
            raise NextRequest from failure
        raise failure
