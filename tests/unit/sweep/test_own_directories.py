"""What a job has made beside its results is removed, however the measured process ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from stubbed_sweeps import StubbedHarness

from bucketbench.job.description import Description
from bucketbench.job.process import ProcessEnd


class _LeavesFiles:
    """A measured process that has saved a checkpoint when it ends."""

    def __init__(self, end: ProcessEnd | BaseException) -> None:
        self._end = end
        self.left: list[Path] = []

    def __call__(self, directory: Path) -> ProcessEnd:
        own = Path(Description.read(directory).job["local_directory"])
        (own / "runs").mkdir(parents=True)
        (own / "runs" / "step-0.pt").write_bytes(b"a checkpoint")
        self.left.append(own)
        if isinstance(self._end, BaseException):
            raise self._end
        return self._end


@pytest.mark.parametrize(
    "end",
    [
        ProcessEnd(returncode=0, timed_out=False, wall_s=1.0),
        ProcessEnd(returncode=-9, timed_out=True, wall_s=40.0),
        KeyboardInterrupt(),
    ],
    ids=["exited", "killed", "interrupted"],
)
def test_a_directory_for_local_files_is_removed(harness: StubbedHarness, end: ProcessEnd | BaseException) -> None:
    saves = harness.worker.behaviours["disk"] = _LeavesFiles(end)
    harness.run("pytorch_checkpointing", "client=disk", "repeat=0,1", "checkpoint=small")
    assert saves.left[0].parent == Path(".bucketbench").absolute()
    assert len(set(saves.left)) == len(saves.left) == (1 if isinstance(end, BaseException) else 2)
    assert list(Path(".bucketbench").iterdir()) == []


@pytest.mark.parametrize(
    ("subdirectory", "said"),
    [
        ("../${hydra.job.num}", "hydra.sweep.subdir=../0 has the results of job 0 beside the run's"),
        (
            "job",
            "hydra.sweep.subdir=job has the results of job 1 in the place of those of job 0: have ${hydra.job.num}",
        ),
    ],
)
def test_a_directory_in_which_results_would_be_lost_is_refused(
    harness: StubbedHarness, subdirectory: str, said: str
) -> None:
    by_time = "hydra.sweep.dir=run-${now:%f}"  # which is another one for each kind of job
    done = harness.run("listing", "client=boto3,obstore", f"hydra.sweep.subdir={subdirectory}", by_time)
    assert done.status == 2
    assert said in done.err
    assert harness.worker.started == []
    assert harness.runs("listing") == []
