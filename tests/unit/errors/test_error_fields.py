"""Errors keep their fields where they cross a process border, as DataLoader workers and pickling make them."""

from __future__ import annotations

import pickle
import traceback

import pytest
from torch.utils.data import DataLoader, Dataset

from torchbucket import errors
from torchbucket.errors import ArchiveError, CheckpointError, ChecksumError, NotFoundError, StoreError, TorchbucketError

ARCHIVE = {"uri": "s3://pets/a.tar", "offset": 512}
CHECKPOINT = {"uri": "s3://pets/model.safetensors"}
STORE = {"operation": "get_object", "uri": "s3://pets/\u00e9\n1", "status": 503, "code": "SlowDown", "attempts": 3}
CHECKSUM = STORE | {"algorithm": "crc32c", "expected": "AAAA", "computed": "BBBB"}


def made(kind: type[TorchbucketError]) -> TorchbucketError:
    return kind("read a\nb: failed", **fields_of(kind))


def fields_of(kind: type[TorchbucketError]) -> dict[str, object]:
    if issubclass(kind, ChecksumError):
        return CHECKSUM
    if issubclass(kind, StoreError):
        return STORE
    if issubclass(kind, CheckpointError):
        return CHECKPOINT
    return ARCHIVE if issubclass(kind, ArchiveError) else {}


class Failing(Dataset[object]):
    def __init__(self, kind: type[TorchbucketError]) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> object:
        try:
            raise StoreError("the cause", uri="s3://cause", attempts=9)
        except StoreError as cause:
            error = made(self.kind)
            error.add_note("while testing")
            raise error from cause


KINDS = [getattr(errors, name) for name in errors.__all__]


# An error comes out of a spawned worker, which imports torch first, as it does out of a forked one.
@pytest.mark.parametrize(
    ("kind", "method"),
    [
        (NotFoundError, "fork"),
        (ArchiveError, "fork"),
        (ChecksumError, "fork"),
        (ChecksumError, "spawn"),
        pytest.param(NotFoundError, "spawn", marks=pytest.mark.nightly),
        pytest.param(ArchiveError, "spawn", marks=pytest.mark.nightly),
    ],
)
def test_an_error_out_of_a_worker_has_the_fields_it_was_raised_with(kind, method):
    loader = DataLoader(Failing(kind), batch_size=None, num_workers=1, multiprocessing_context=method)
    with pytest.raises(kind, match="failed") as caught:
        list(loader)
    traceback.clear_frames(caught.tb)  # which hold the worker: the garbage collector, at last, would wait 5 s for it
    assert {name: getattr(caught.value, name) for name in fields_of(kind)} == fields_of(kind)
    assert "while testing" in str(caught.value)
    assert "fields of the error" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_crosses_from_a_worker_whole(kind, monkeypatch):
    """The text of a worker's traceback, made as torch makes it, in one process."""
    from torch._utils import ExceptionWrapper

    monkeypatch.setattr("torch.utils.data.get_worker_info", lambda: object())
    try:
        Failing(kind)[0]
    except kind:
        wrapper = ExceptionWrapper(where="in DataLoader worker process 0")
    monkeypatch.undo()
    with pytest.raises(kind) as caught:
        wrapper.reraise()
    assert type(caught.value) is kind
    assert {name: getattr(caught.value, name) for name in fields_of(kind)} == fields_of(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pickled_error_keeps_fields_and_notes(kind):
    error = made(kind)
    error.add_note("while reading")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error) == "read a\nb: failed"
    assert {name: getattr(copy, name) for name in fields_of(kind)} == fields_of(kind)
    assert copy.__notes__ == ["while reading"]


def test_an_amended_error_crosses_with_its_new_fields(monkeypatch):
    monkeypatch.setattr("torch.utils.data.get_worker_info", lambda: object())
    error = StoreError("read: failed", attempts=1).amend(attempts=4)
    assert len(error.__notes__) == 1
    assert '"attempts": 4' in error.__notes__[0]


def test_outside_of_workers_an_error_has_no_note():
    assert not hasattr(made(StoreError), "__notes__")
