"""The orders in which the loop saves and loads, and what it makes of clients that get them wrong."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
from kept_checkpoints import TENSORS, Background, Kept, measured

from bucketbench.checkpointing.course import Action, Course
from bucketbench.records import Operation, OperationKind, Phase

SAVE, LOAD = OperationKind.SAVE, OperationKind.LOAD


class Finds(Kept):
    """Tells what is saved, and notes what is done in which order."""

    def __init__(self, kept: dict[str, dict[str, torch.Tensor]] | None = None) -> None:
        super().__init__()
        self.kept = {} if kept is None else kept
        self.done: list[str] = []

    def save(self, state: dict[str, torch.Tensor], key: str) -> None:
        assert key not in self.kept, "it is written to a vacant name"
        super().save(state, key)
        self.done.append("save")

    def load(self, key: str) -> Any:
        self.done.append("load")
        return super().load(key)

    def is_saved(self, key: str) -> bool:
        return key in self.kept

    def save_for_loads(self, state: dict[str, torch.Tensor], key: str) -> None:
        self.save(state, key)


class StaleForOne(Finds):
    """Loads a tensor of what was saved before."""

    def save(self, state: dict[str, torch.Tensor], key: str) -> None:
        before = self.kept.get("before")
        super().save(state, key)
        self.kept["before"] = {name: tensor.clone() for name, tensor in state.items()}
        if before is not None:
            self.kept[key]["tensor.00001"] = before["tensor.00001"]


class ReadsLate(Background):
    """Copies the state after the training went on, which is too late."""

    def save_async(self, state: dict[str, torch.Tensor], key: str) -> Future[None]:
        future: Future[None] = Future()

        def save() -> None:
            while float(state["tensor.00002"][0]) > -2:  # the first training step has not changed all of them yet
                pass
            Kept.save(self, state, key)
            future.set_result(None)

        Thread(target=save).start()
        return future


def kinds(operations: list[Operation]) -> list[OperationKind]:
    return [one.kind for one in operations if one.phase is Phase.MEASURE]


def test_all_saves_come_before_the_first_load(tmp_path: Path) -> None:
    client = Finds()
    found, operations = measured(tmp_path, client, course=Course(action=Action.SAVES_THEN_LOADS), steps=3)
    assert client.done == ["save", "load", *["save"] * 3, *["load"] * 3]
    assert found.verification.checked == 3 * TENSORS
    assert kinds(operations) == [SAVE, LOAD] * 3
    assert client.kept == {}
    assert all(one.content_bytes == 1200 for one in operations if one.kind is LOAD)


class LosesOne(Finds):
    """Has lost the second of three checkpoints when it is loaded."""

    def load(self, key: str) -> Any:
        if key.endswith("1.pt"):
            raise OSError("it is gone")
        return super().load(key)


def test_what_was_saved_is_removed_where_a_load_fails(tmp_path: Path) -> None:
    client = LosesOne()
    with pytest.raises(OSError, match="gone"):
        measured(tmp_path, client, course=Course(action=Action.SAVES_THEN_LOADS), steps=3)
    assert client.kept == {}


def test_a_job_that_only_saves_leaves_its_last_checkpoint_which_one_that_only_loads_finds(tmp_path: Path) -> None:
    saving = Finds()
    (tmp_path / "save").mkdir()
    found, operations = measured(tmp_path / "save", saving, course=Course(action=Action.SAVE), steps=2)
    assert kinds(operations) == [SAVE, SAVE]
    assert (found.verification.checked, found.verification.failure) == (2 * TENSORS, None)
    assert len(saving.kept) == 1

    loading = Finds(saving.kept)
    (tmp_path / "load").mkdir()
    found, operations = measured(tmp_path / "load", loading, course=Course(action=Action.LOAD), steps=2)
    assert kinds(operations) == [LOAD, LOAD]
    assert loading.done == ["load"] * 3, "one of them to warm up"
    assert (found.verification.checked, found.verification.failure) == (2 * TENSORS, None)
    assert found.details["loaded"] == "found"
    assert len(loading.kept) == 1


def test_a_job_that_only_loads_saves_first_where_nothing_is(tmp_path: Path) -> None:
    client = Finds()
    found, operations = measured(tmp_path, client, course=Course(action=Action.LOAD), steps=1, warmup=False)
    assert (client.done, kinds(operations)) == (["save", "load"], [LOAD])
    assert found.details["loaded"].startswith("saved first")
    assert found.verification.failure is None


def test_a_mixture_of_two_saves_is_found_by_who_did_not_save_it(tmp_path: Path) -> None:
    (tmp_path / "save").mkdir()
    saving = StaleForOne()
    course = Course(action=Action.SAVE, verify=False)
    found, operations = measured(tmp_path / "save", saving, course=course, steps=2)
    assert (found.verification.checked, kinds(operations)) == (0, [SAVE, SAVE])
    assert "load" not in saving.done, "it was told not to"
    (tmp_path / "load").mkdir()
    found, _ = measured(tmp_path / "load", Finds(saving.kept), course=Course(action=Action.LOAD), steps=1)
    assert found.verification.mismatched == 2, "also that of the warm-up"


def test_what_is_only_saved_wrong_is_wrong(tmp_path: Path) -> None:
    found, operations = measured(tmp_path, StaleForOne(), course=Course(action=Action.SAVE), steps=1)
    assert found.verification.mismatched == 1
    (save,) = [one for one in operations if one.phase is Phase.MEASURE]
    assert (save.samples, save.content_bytes, save.errors) == (0, 0, 1)


def test_training_goes_on_while_a_save_is_under_way_and_after_one_that_is_not(tmp_path: Path) -> None:
    course = Course(action=Action.ASYNC_SAVE, steps_per_save=3, step_time_s=0.001)
    for name, client in (("background", Background()), ("foreground", Kept())):
        (tmp_path / name).mkdir()
        found, operations = measured(tmp_path / name, client, course=course, steps=1)
        assert found.verification.failure is None, "the steps have changed the state, and not what was saved"
        assert client.kept == {}
        (save,) = [one for one in operations if one.kind is SAVE and one.phase is Phase.MEASURE]
        (train,) = [one for one in operations if one.kind is OperationKind.TRAIN and one.phase is Phase.MEASURE]
        assert train.duration_s >= 0.003
        if name == "foreground":
            assert train.started_s >= save.ended_s
        else:
            assert save.started_s < save.ended_s <= train.started_s, "durable at once, and not when it is waited for"


def test_a_client_that_reads_the_state_when_training_went_on_is_wrong(tmp_path: Path) -> None:
    course = Course(action=Action.ASYNC_SAVE, steps_per_save=2, step_time_s=0.001)
    found, _ = measured(tmp_path, ReadsLate(), course=course, steps=1, warmup=False)
    assert found.verification.mismatched == TENSORS
