"""An object reader is indistinguishable from ``io.BytesIO``, however it gets its bytes."""

from __future__ import annotations

import io

import pytest
from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from torchbucket.files import ObjectReader
from torchbucket.files.content import RangedContent
from torchbucket.files.pieces import PiecewiseContent
from torchbucket.store import open_store

# Windows of a few bytes, so that objects of a few hundred cross many of them.
TINY = {"first_window_bytes": 4, "largest_window_bytes": 32, "most_ahead": 3}
BODIES = st.one_of(
    st.binary(max_size=8),
    st.integers(0, 400).flatmap(lambda size: st.just(bytes((index * 7 + 3) % 13 for index in range(size)))),
)
SIZES = st.one_of(st.none(), st.integers(-3, 50), st.integers(0, 600))


class _ReaderMachine(RuleBasedStateMachine):
    """Does the same to a reader and to its model, and compares what both say."""

    @initialize(body=BODIES, way=st.sampled_from(["whole", "lazy", "lazy, size unknown", "pieces", "pieces that go"]))
    def open(self, body: bytes, way: str) -> None:
        store = open_store("memory://reader-property")
        store.write("object", body)
        if way == "whole":
            self.reader = ObjectReader.from_data(store.read("object"), uri="memory://reader-property/object")
        elif way.startswith("pieces"):
            # Two of three pieces are there.
            view = memoryview(body)
            pieces = [(start, view[start : start + 7]) for start in range(0, len(body), 7) if start % 3]
            info = store.head("object")
            holes = PiecewiseContent(store, info, pieces, frees=way == "pieces that go")
            self.reader = ObjectReader(holes, key="object", uri="memory://reader-property/object")
        else:
            content = RangedContent(store, "object", size_bytes=len(body) if way == "lazy" else None, **TINY)
            self.reader = ObjectReader(content, key="object", uri="memory://reader-property/object")
        self.model = io.BytesIO(body)
        self.body = body

    @rule(size=SIZES)
    def read(self, size: int | None) -> None:
        assert self.reader.read(size) == self.model.read(size)

    @rule(size=st.integers(-1, 100))
    def read1(self, size: int) -> None:
        rest = self.body[self.model.tell() :]
        piece = self.reader.read1(size)
        assert piece == rest[: len(piece)]
        assert size < 0 or len(piece) <= size
        assert bool(piece) == bool(rest and size != 0)
        self.model.seek(len(piece), io.SEEK_CUR)

    @rule(size=st.integers(0, 200))
    def readinto(self, size: int) -> None:
        mine, its = bytearray(size), bytearray(size)
        assert self.reader.readinto(mine) == self.model.readinto(its)
        assert mine == its

    @rule(size=st.integers(0, 40))
    def readinto1(self, size: int) -> None:
        rest = self.body[self.model.tell() :]
        target = bytearray(size)
        filled = self.reader.readinto1(target)
        assert target[:filled] == rest[:filled]
        assert bool(filled) == bool(rest and size)
        self.model.seek(filled, io.SEEK_CUR)

    @rule(size=st.integers(0, 40))
    def peek(self, size: int) -> None:
        rest = self.body[self.model.tell() :]
        seen = self.reader.peek(size)
        assert seen == rest[: len(seen)]
        assert bool(seen) == bool(rest)

    @rule(limit=st.integers(-1, 30))
    def readline(self, limit: int) -> None:
        # The bodies hold the byte 10, a line's end, every 13 bytes.
        assert self.reader.readline(limit) == self.model.readline(limit)

    @rule(offset=st.integers(-60, 500), whence=st.sampled_from([io.SEEK_SET, io.SEEK_CUR, io.SEEK_END]))
    def seek(self, offset: int, whence: int) -> None:
        try:
            expected = self.model.seek(offset, whence)
        except ValueError:
            with pytest.raises(ValueError, match="negative seek"):
                self.reader.seek(offset, whence)
        else:
            assert self.reader.seek(offset, whence) == expected

    @rule()
    def size(self) -> None:
        assert self.reader.size_bytes == len(self.body)

    @invariant()
    def position_agrees(self) -> None:
        if hasattr(self, "reader"):
            assert self.reader.tell() == self.model.tell()

    def teardown(self) -> None:
        if hasattr(self, "reader"):
            self.reader.close()
            with pytest.raises(ValueError, match="closed"):
                self.reader.read(1)


_ReaderMachine.TestCase.settings = settings(max_examples=examples(50), stateful_step_count=40)
TestReader = _ReaderMachine.TestCase
