"""A node's records arrive on node 0 as they were left, and nothing else does."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from bucketbench.cluster.parcels import pack, unpack
from bucketbench.errors import ResultsError

RANKS = range(2, 4)


def left(directory: Path) -> Path:
    for rank in RANKS:
        folder = directory / "ranks" / str(rank)
        folder.mkdir(parents=True)
        for name in ("operations.jsonl", "usage.jsonl", "outcome.json", "clock.json", "progress.json"):
            (folder / name).write_text(f"{name} of {rank}\n" * 1000)
    (directory / "ranks" / "2" / "usage.jsonl").unlink()  # a rank that was killed has not left all
    (directory / "benchmark.log").write_text("what the ranks wrote")
    (directory / "job.json").write_text("{}")
    return directory


def test_records_outcomes_and_the_log_arrive(tmp_path: Path) -> None:
    there, here = left(tmp_path / "there"), tmp_path / "here"
    here.mkdir()
    (here / "benchmark.log").write_text("its own")
    parcel = pack(there, RANKS, world_size=4)
    unpack(parcel, here, RANKS, world_size=4, log=here / "benchmark.node-1.log")
    arrived = sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file())
    assert arrived == [
        "benchmark.log", "benchmark.node-1.log", "ranks/2/clock.json", "ranks/2/operations.jsonl",
        "ranks/2/outcome.json", "ranks/3/clock.json", "ranks/3/operations.jsonl", "ranks/3/outcome.json",
        "ranks/3/usage.jsonl",
    ]  # fmt: skip
    for path in (here / "ranks").rglob("*.*"):
        assert path.read_bytes() == (there / path.relative_to(here)).read_bytes()
    assert (here / "benchmark.log").read_text() == "its own"
    assert (here / "benchmark.node-1.log").read_text() == "what the ranks wrote"


@pytest.mark.parametrize("name", ["ranks/0/outcome.json", "../outcome.json", "/etc/passwd", "ranks/2/job.json"])
def test_a_file_that_is_none_of_the_nodes_ranks_is_refused(tmp_path: Path, name: str) -> None:
    parcel = io.BytesIO()
    with zipfile.ZipFile(parcel, "w") as files:
        files.writestr(name, "{}")
    with pytest.raises(ResultsError, match=r"has sent a file .* no record of its ranks"):
        unpack(parcel.getvalue(), tmp_path, RANKS, world_size=4, log=tmp_path / "log")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_parcel_is_told(tmp_path: Path) -> None:
    parcel = pack(left(tmp_path / "there"), RANKS, world_size=4)
    middle = len(parcel) // 2
    for damaged in (b"", parcel[:-30], parcel[: middle - 20] + bytes(40) + parcel[middle + 20 :]):
        with pytest.raises(ResultsError, match="records that a node has sent are damaged"):
            unpack(damaged, tmp_path / "here", RANKS, world_size=4, log=tmp_path / "log")
