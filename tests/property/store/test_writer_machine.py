"""A writer's life as a state machine: whatever is done in whatever order, the object is whole or not there."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest
from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from torchbucket.config import MIB, RetryConfig, StoreConfig
from torchbucket.errors import NotFoundError, PermissionDeniedError
from torchbucket.store import open_store

sys.path.insert(0, str(Path(__file__).parents[2] / "fault" / "store"))
from scripted_s3 import Fault, ScriptedS3, error_body  # the scripted server is the fault tests'

PART = 5 * MIB
_names = itertools.count()


class WriterMachine(RuleBasedStateMachine):
    """One key, one writer at a time, over S3; ``written`` is what it was given, ``published`` what must be readable."""

    @initialize()
    def begin(self) -> None:
        self.server = ScriptedS3()
        self.server.__enter__()
        config = StoreConfig(
            endpoint=self.server.endpoint,
            region="r",
            anonymous=True,
            part_size_bytes=PART,
            retry=RetryConfig(initial_s=0.0),
        )
        self.store = open_store("s3://bucket", config)
        self.writer = None
        self.written = bytearray()
        self.published: bytes | None = None

    @precondition(lambda self: self.writer is None)
    @rule()
    def open(self) -> None:
        self.writer = self.store.open_writer("k")
        self.written = bytearray()

    @precondition(lambda self: self.writer is not None)
    @rule(length=st.sampled_from([0, 1, 1000, PART - 1, PART, PART + 1]), value=st.integers(1, 255))
    def write(self, length: int, value: int) -> None:
        scratch = bytearray([value]) * length
        assert self.writer.write(scratch) == length
        self.written += scratch
        scratch[:] = bytes(length)

    @precondition(lambda self: self.writer is not None)
    @rule()
    def close(self) -> None:
        assert self.writer.tell() == len(self.written)
        self.writer.close()
        assert self.writer.info.size_bytes == len(self.written)
        self.writer.close()
        self.published, self.writer = bytes(self.written), None

    @precondition(lambda self: self.writer is not None)
    @rule()
    def abort(self) -> None:
        self.writer.abort()
        with pytest.raises(ValueError, match="was aborted"):
            self.writer.write(b"")
        self.writer = None

    @precondition(lambda self: self.writer is not None)
    @rule(kind=st.sampled_from(["put_object", "begin_upload", "upload_part", "complete_upload"]))
    def fail_for_good(self, kind: str) -> None:
        """A refusal, which may come at a later write or at the close."""
        if kind in ("put_object", "begin_upload") and len(self.written) > PART:
            return  # The upload is open already, and no request of that kind will follow.
        # Alone: a write that was done, answered by a reset, and refused when it is tried again, may be there or not.
        self.server.faults.clear()
        self.server.faults[kind].append(Fault(status=403, body=error_body("AccessDenied")))
        with pytest.raises(PermissionDeniedError):
            if kind != "put_object":
                self.writer.write(bytes(PART + 1))
                self.writer.write(bytes(PART + 1))
            self.writer.close()
        self.server.faults[kind].clear()
        self.writer = None

    @precondition(lambda self: self.writer is not None)
    @rule(kind=st.sampled_from(["put_object", "begin_upload", "upload_part", "complete_upload"]), done=st.booleans())
    def fail_once(self, kind: str, done: bool) -> None:
        """A reset, before or after the work was done; an upload that was opened so is lost to everyone."""
        done = done and kind != "begin_upload"
        self.server.faults[kind].append(Fault(reset_after=-1, applied=done))

    @invariant()
    def the_object_is_whole_or_absent(self) -> None:
        if not hasattr(self, "store"):
            return
        if self.published is None:
            with pytest.raises(NotFoundError):
                self.store.head("k")
        else:
            assert self.store.read("k").data == self.published
        if self.writer is None:
            assert self.server.uploads == {}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            if self.writer is not None:
                self.writer.abort()
            self.store.close()
            self.server.__exit__()


TestWriterMachine = WriterMachine.TestCase
TestWriterMachine.settings = settings(max_examples=examples(20), stateful_step_count=12)
