"""Two saves to one address, whose files are mixed: none becomes a checkpoint, whoever ends first or is killed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

from torchbucket import CheckpointError
from torchbucket.dcp import BucketStorageWriter, latest, writer

OTHER = "another save to the same address"


class Saving:
    """A save that was begun, of which all ranks' plans are made and nothing is written."""

    def __init__(self, uri: str, value: float) -> None:
        self.writer = BucketStorageWriter(uri)
        self.planner = DefaultSavePlanner()
        self.planner.set_up_planner({"weight": torch.full((3,), value)}, self.writer.storage_meta(), True)
        self.writer.set_up_storage_writer(True)
        plans, self.metadata = self.planner.create_global_plan([self.planner.create_local_plan()])
        (self.plan,) = self.writer.prepare_global_plan(plans)
        self.results: Any = None

    def write(self) -> None:
        self.results = [self.writer.write_data(self.planner.finish_plan(self.plan), self.planner).value()]

    def finish(self) -> None:
        self.writer.finish(self.metadata, self.results)


def both(run: str) -> tuple[Saving, Saving]:
    saves = Saving(f"{run}/step-1", 1.0), Saving(f"{run}/step-1", 2.0)
    for one in saves:
        one.write()
    return saves


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_neither_is_kept(run: str, order: tuple[int, int]) -> None:
    saves = both(run)
    told = []
    for number in order:
        try:
            saves[number].finish()
        except CheckpointError as error:
            told.append((number, OTHER in str(error)))
    # The one that has begun last cannot know of the other; it is told only where the other has ended before it.
    assert told == ([(0, True), (1, True)] if order == (0, 1) else [(0, True)])
    assert latest(run) is None


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_one_that_is_killed_before_its_metadata_leaves_no_mixture(
    run: str, order: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (both(run)[number] for number in order)
    published = writer.publish

    def killed(*_: Any) -> None:
        raise OSError("killed")

    monkeypatch.setattr(writer, "publish", killed)
    with pytest.raises((OSError, CheckpointError), match=f"killed|{OTHER}"):
        first.finish()
    monkeypatch.setattr(writer, "publish", published)
    if order == (1, 0):
        with pytest.raises(CheckpointError, match=OTHER):
            second.finish()
    assert latest(run) is None
    with pytest.raises(CheckpointError, match=OTHER):
        second.finish()
    assert latest(run) is None


def test_the_next_save_is_kept(run: str) -> None:
    for one in both(run):
        with pytest.raises(CheckpointError, match=OTHER):
            one.finish()
    alone = Saving(f"{run}/step-1", 3.0)
    alone.write()
    alone.finish()
    assert latest(run) == f"{run}/step-1"
