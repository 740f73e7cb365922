"""What the adapters share: samples by index and by batch, under keys relative to the prefix."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bucketbench.clients.objects import BatchedObjects, ObjectsByIndex
from bucketbench.errors import UsageError


class Echo(ObjectsByIndex):
    def read(self, key: str) -> bytes:
        return key.encode()


class EchoBatch(BatchedObjects):
    batches: list[list[str]]

    def read_batch(self, keys: Sequence[str]) -> list[bytes]:
        self.batches = [*getattr(self, "batches", []), list(keys)]
        return [key.encode() for key in keys]


def test_by_index() -> None:
    dataset = Echo("p/", ["p/a", "p/p/b"])
    assert len(dataset) == 2
    assert [dataset[0], dataset[1]] == [("a", b"p/a"), ("p/b", b"p/p/b")]
    assert not hasattr(dataset, "__getitems__"), "a DataLoader would ask for whole batches"


def test_by_batch_in_the_order_asked_for() -> None:
    dataset = EchoBatch("p/", ["p/a", "p/b", "p/c"])
    assert dataset.__getitems__([2, 0]) == [("c", b"p/c"), ("a", b"p/a")]
    assert dataset[1] == ("b", b"p/b")
    assert dataset.batches == [["p/c", "p/a"], ["p/b"]]


def test_a_short_batch_is_an_error_and_not_a_short_batch() -> None:
    class Short(BatchedObjects):
        def read_batch(self, keys: Sequence[str]) -> list[bytes]:
            return [b""] * (len(keys) - 1)

    with pytest.raises(ValueError, match="shorter"):
        Short("", ["a", "b"]).__getitems__([0, 1])


def test_no_object_is_an_error_that_names_the_prefix() -> None:
    with pytest.raises(UsageError, match="'sets/none/'"):
        Echo("sets/none/", [])
