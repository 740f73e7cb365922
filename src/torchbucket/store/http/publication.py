"""Operations that change a key and may have to look afterwards whether they did, whatever the provider.

When the answer to a write is lost, the write may have happened. Repeating a plain PUT is harmless. Completing an upload
again finds no upload, and a write on a condition finds its own object: both then look at the object that is there.
"""

from __future__ import annotations

from torchbucket.errors import NotFoundError, PreconditionFailedError, StoreError, ThrottledError
from torchbucket.store.conditions import Condition, unmet
from torchbucket.store.http.dialect import Dialect, is_gone
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.transport.operation import Again, Answer, Onward, Operation, Request

__all__ = ["ConditionalDelete", "Publication"]


class Publication(Operation[ObjectInfo]):
    """A write that, where its answer was lost and a second try is refused, compares the object that is there.

    A subclass makes the two requests and reads their answers.

    Args:
        name: the request's kind.
        key: the object's key.
        uri: the object's address.
        condition: what must hold of the key.
    """

    def __init__(self, name: str, key: str, uri: str, condition: Condition | None) -> None:
        super().__init__(name, key, uri)
        self._condition = condition
        self._lost = False
        self._refusal: StoreError | None = None

    def build(self) -> Request:
        """Write or, in the second step, ask what is there."""
        return self._write_request() if self._refusal is None else self._look_request()

    def finish(self, lines: list[bytes]) -> ObjectInfo:
        """Return the description of what was written."""
        answer = Answer(lines, self.body())
        if self._refusal is None:
            try:
                return self._written(answer)
            except Again as again:
                # A server's error may hide that it did the work; being told to slow down does not.
                refused = isinstance(again.error, ThrottledError) and again.error.status in (429, 503)
                self._lost = self._lost or not refused
                raise
            except (PreconditionFailedError, NotFoundError) as refusal:
                if not self._lost or refusal.code == "NoSuchBucket":
                    raise
                self._refusal = refusal
                raise Onward from refusal
        found = self._found_ours(answer)
        if found is None:
            raise self._refusal
        return found

    def interrupted(self, lines: list[bytes]) -> Exception | None:
        """Note that the answer was lost."""
        self._lost = True
        return super().interrupted(lines)

    def _write_request(self) -> Request:
        """Make the write's request."""
        raise NotImplementedError

    def _written(self, answer: Answer) -> ObjectInfo:
        """Describe what was written, or raise what the answer means."""
        raise NotImplementedError

    def _look_request(self) -> Request:
        """Make the request that describes the object."""
        raise NotImplementedError

    def _found_ours(self, answer: Answer) -> ObjectInfo | None:
        """Describe the object if it is the one that was written, else None; raise ``Again`` to look again."""
        raise NotImplementedError

    def _refused(self, failure: Exception) -> Exception:
        """The error for the caller: of a condition it says what the condition was."""
        if isinstance(failure, PreconditionFailedError) and self._condition is not None:
            error = unmet(self.name, self.uri, self._condition)
            error.status, error.code = failure.status, failure.code
            return error
        return failure


class ConditionalDelete(Operation[None]):
    """Removes an object that has a version; where it is gone already, by a first try whose answer was lost too, it is
    done. A refusal may mean either, so the object is asked for."""

    def __init__(self, dialect: Dialect, key: str, condition: Condition) -> None:
        super().__init__("delete_object", key, dialect.address(key))
        self._dialect = dialect
        self._condition = condition
        self._refused = False

    def build(self) -> Request:
        """Remove or, in the second step, ask whether the object is there."""
        if self._refused:
            return self._dialect.head_request(self.key)
        return self._dialect.delete_request(self.key, self._condition)

    def finish(self, lines: list[bytes]) -> None:
        """Return where the object is gone."""
        answer = Answer(lines, self.body())
        if answer.status in (200, 204):
            if self._refused:
                raise unmet(self.name, self.uri, self._condition)
            return
        failure = self._dialect.failure(self.name, self.key, answer)
        if is_gone(failure):
            return
        if isinstance(failure, PreconditionFailedError) and not self._refused:
            self._refused = True
            raise Onward from failure
        raise failure
