"""The loop that saves and loads: what it makes of clients that lose, confuse or refuse checkpoints."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from kept_checkpoints import TENSORS, Background, Kept, measured
from torch.distributed.checkpoint.api import CheckpointException

from bucketbench.checkpointing import loop
from bucketbench.checkpointing.course import Action, Course
from bucketbench.job.description import OPERATIONS_FILE
from bucketbench.records import OperationKind, Phase


class Stale(Kept):
    """Saves nothing where something is already."""

    def save(self, state: dict[str, torch.Tensor], key: str) -> None:
        if not self.kept:
            super().save(state, key)


class WrongAtFirst(Kept):
    """Loads a tensor wrong, the first time."""

    def load(self, key: str) -> Any:
        loaded = super().load(key)
        if len(self.keys) == 1:
            loaded["tensor.00001"].zero_()
        return loaded


class CannotLoad(Kept):
    """Cannot load."""

    def load(self, key: str) -> Any:
        raise OSError("the bucket is write-only")


class Looks(Kept):
    """Notes how many objects a collection of garbage passes over."""

    passed_over = 0

    def save(self, state: dict[str, torch.Tensor], key: str) -> None:
        super().save(state, key)
        self.passed_over = gc.get_freeze_count()


class Same(Kept):
    """Gives back the tensors that it was given."""

    def save(self, state: dict[str, torch.Tensor], key: str) -> None:
        self.kept[key] = state

    def load(self, key: str) -> Any:
        return dict(self.kept[key])


class SavesHalf(Kept):
    """Fails with what is left of a save in the bucket, by the exception of ``torch.distributed.checkpoint``."""

    def save(self, state: dict[str, torch.Tensor], key: str) -> None:
        super().save(state, key)
        if len(self.keys) == 2:
            raise CheckpointException("a rank cannot write", {})


class Refused(Kept):
    """Cannot save."""

    def save(self, state: dict[str, torch.Tensor], key: str) -> None:
        raise OSError("the bucket is closed")


class RefusedLater(Background):
    """Cannot save, which the future tells."""

    failure = OSError("the bucket was closed meanwhile")


def test_each_checkpoint_is_saved_loaded_and_removed(tmp_path: Path) -> None:
    client = Kept()
    found, operations = measured(tmp_path, client)
    assert found.verification.failure is None
    assert found.verification.checked == 2 * TENSORS, "those of the warm-up do not count"
    assert client.keys == ["bucketbench-step-0.pt", "bucketbench-step-0.pt", "bucketbench-step-1.pt"]
    assert (client.kept, client.closed) == ({}, True)
    kinds = [(one.kind, one.phase, one.epoch, one.content_bytes) for one in operations if one.phase is Phase.MEASURE]
    assert kinds == [
        (kind, Phase.MEASURE, step, 1200) for step in (0, 1) for kind in (OperationKind.SAVE, OperationKind.LOAD)
    ]


def test_the_latest_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    client = Kept()
    found, _ = measured(tmp_path, client, save_only_latest=True, steps=None)
    assert found.verification.failure is None
    assert client.keys == ["bucketbench-latest.pt"] * 2, "the warm-up, and one that took long enough"
    assert client.kept == {}


def test_a_save_in_the_background_is_recorded_in_two_times(tmp_path: Path) -> None:
    _, operations = measured(tmp_path, Background(), warmup=False)
    stages = [one for one in operations if one.kind is OperationKind.STAGE]
    saves = [one for one in operations if one.kind is OperationKind.SAVE]
    copies = [one for one in operations if one.kind is OperationKind.COPY]
    assert [stage.epoch for stage in stages] == [copy.epoch for copy in copies] == [0, 1]
    assert all(copy.duration_s > 0 for copy in copies)
    for stage, save in zip(stages, saves, strict=True):
        assert stage.started_s == save.started_s
        assert stage.ended_s <= save.ended_s


@pytest.mark.parametrize(
    ("client", "words"),
    [(Stale, "3 arrived with wrong content.* has other content"), (Same, "is the tensor that was saved")],
)
def test_what_was_not_saved_or_not_loaded_is_wrong(tmp_path: Path, client: Callable[[], Kept], words: str) -> None:
    found, operations = measured(tmp_path, client(), save_only_latest=True, warmup=client is Stale, steps=1)
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(found.verification.failure)
    for one in operations:
        if one.phase is Phase.MEASURE:
            assert (one.samples, one.content_bytes) == (0, 0)


def test_a_wrong_warm_up_is_wrong(tmp_path: Path) -> None:
    found, _ = measured(tmp_path, WrongAtFirst())
    assert (found.verification.checked, found.verification.mismatched) == (3 * TENSORS, 1)


def test_as_many_steps_as_the_time_takes_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_AUTO_STEPS", 3)
    client = Kept()
    measured(tmp_path, client, warmup=False, steps=None, min_measured_s=1e9)
    assert len(client.keys) == 3


def test_steps_without_a_number_end_after_one_that_is_wrong(tmp_path: Path) -> None:
    _, operations = measured(tmp_path, Stale(), warmup=True, save_only_latest=True, steps=None, min_measured_s=1e9)
    assert {one.epoch for one in operations if one.phase is Phase.MEASURE} == {0}


def test_collections_pass_over_what_was_there_before_the_client(tmp_path: Path) -> None:
    gc.unfreeze()
    client = Looks()
    measured(tmp_path, client)
    assert client.passed_over > 10_000
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("is_latest", [True, False])
def test_a_checkpoint_that_cannot_be_loaded_is_removed(tmp_path: Path, is_latest: bool) -> None:
    client = CannotLoad()
    with pytest.raises(OSError, match="write-only"):
        measured(tmp_path, client, save_only_latest=is_latest)
    assert len(client.keys) == 1
    assert client.kept == {}


@pytest.mark.parametrize("action", [Action.SAVE_AND_LOAD, Action.SAVES_THEN_LOADS, Action.ASYNC_SAVE])
def test_nothing_is_left_of_a_save_that_fails_on_a_rank(tmp_path: Path, action: Action) -> None:
    client = SavesHalf()
    with pytest.raises(CheckpointException):
        measured(tmp_path, client, warmup=False, course=Course(action=action))
    assert (len(client.keys), client.kept) == (2, {})


@pytest.mark.parametrize(("client", "words"), [(Refused, "is closed"), (RefusedLater, "was closed meanwhile")])
def test_a_save_that_fails_ends_the_job(tmp_path: Path, client: Callable[[], Kept], words: str) -> None:
    with pytest.raises(OSError, match=words):
        measured(tmp_path, client())
    assert "save" not in [json.loads(line)["kind"] for line in (tmp_path / OPERATIONS_FILE).read_text().splitlines()]


class StaleOfAnotherJob(Kept):
    """Saves nothing where another job has left a checkpoint under the same key."""

    def __init__(self, left: dict[str, dict[str, torch.Tensor]]) -> None:
        super().__init__()
        self.kept = left

    def save(self, state: dict[str, torch.Tensor], key: str) -> None:
        if key not in self.kept:
            super().save(state, key)


def test_what_another_job_has_left_is_wrong(tmp_path: Path) -> None:
    class Leaves(Kept):
        def remove(self, key: str) -> None:
            pass

    other = Leaves()
    measured(tmp_path, other, warmup=False, steps=1)
    found, _ = measured(tmp_path, StaleOfAnotherJob(other.kept), warmup=False, steps=1)
    assert found.verification.mismatched == TENSORS
