"""Lightning: every sample once over its ranks, epochs that differ, and a checkpoint that resumes at the next batch."""

from __future__ import annotations

import json
import os
from pathlib import Path

import forked_programs
import pytest
from loader_runs import COUNT, fill

from torchbucket.store import open_store

PROGRAM = Path(__file__).with_name("lightning_program.py")
IMPORTS = ("lightning.pytorch", "torchdata.stateful_dataloader")


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    root = f"file://{tmp_path}/bucket"
    fill(open_store(root))
    return f"{root}/train/"


def train(kind: str, prefix: str, log: Path, strategy: str) -> None:
    """Run the program; fails where it does."""
    environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    done = forked_programs.run(PROGRAM, kind, prefix, log, strategy, environment=environment, imports=IMPORTS)
    assert done.returncode == 0, done.stderr


def trained_on(log: str) -> list[list]:
    """The batches in order: the epoch, and the samples."""
    return list(map(json.loads, Path(log).read_text().splitlines()))


def epochs_of(batches: list[list]) -> list[list[int]]:
    return [[sample for epoch, batch in batches if epoch == number for sample in batch] for number in range(2)]


# By ddp the second rank is a program of its own, which imports what the first has.
@pytest.mark.parametrize(
    ("kind", "strategy"),
    [("stream", "ddp_fork"), *(pytest.param(kind, "ddp", marks=pytest.mark.nightly) for kind in ("stream", "map"))],
)
def test_two_ranks_share_every_epoch(kind, strategy, prefix, tmp_path):
    train(kind, prefix, tmp_path / "log", strategy)
    by_rank = [epochs_of(trained_on(f"{tmp_path}/log.rank{rank}")) for rank in range(2)]
    for first, second in zip(*by_rank, strict=True):
        assert len(first) == len(second) == 12
        assert sorted({*first, *second}) == list(range(COUNT))
    assert by_rank[0][0] != by_rank[0][1]


@pytest.mark.parametrize(
    "kind",
    ["stream", pytest.param("map", marks=pytest.mark.nightly), "read_ahead"],  # whose sampler is that of map
)
def test_a_checkpoint_resumes_at_the_next_batch(kind, prefix, tmp_path):
    """Stopped in the middle of the first epoch and of the second one."""
    train(kind, prefix, tmp_path / "log", "auto")
    whole = trained_on(f"{tmp_path}/log.rank0")
    assert [sorted(set(epoch)) for epoch in epochs_of(whole)] == [list(range(COUNT))] * 2
    assert trained_on(f"{tmp_path}/log.5.rank0") == whole
    assert trained_on(f"{tmp_path}/log.10.rank0") == whole
