"""Results of earlier versions and of another harness are read, shown and compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bucketbench.errors import ResultsError
from bucketbench.report import load_run
from bucketbench.report.command import main as report
from bucketbench.results import RUN_RESULTS_FILE

SAMPLES = Path(__file__).with_name("samples")


def run_of(tmp_path: Path, sample: str) -> Path:
    (tmp_path / RUN_RESULTS_FILE).write_bytes((SAMPLES / f"{sample}.json").read_bytes())
    return tmp_path


def values(tmp_path: Path, sample: str) -> list[tuple[str, dict[str, float]]]:
    run = load_run(run_of(tmp_path, sample))
    return [
        (job.client, {name: figure.value for name, figure in job.figures.items() if figure.value is not None})
        for job in run.jobs
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_every_past_version_is_read_and_shown(version: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = load_run(run_of(tmp_path, f"version_{version}"))
    assert json.loads((tmp_path / RUN_RESULTS_FILE).read_bytes())["schema_version"] == version
    assert [(job.client, job.repeat, job.failure) for job in run.jobs] == [
        ("boto3", 0, None), ("torchbucket-map", 0, None), ("boto3", 1, None), ("torchbucket-map", 1, None),
    ]  # fmt: skip
    assert run.notes == ()
    for job in run.jobs:
        assert job.figures["samples"].value == 24
        assert job.figures["throughput_mibs"].value is not None
    assert report([str(tmp_path), "--markdown"]) == 0
    assert "torchbucket-map" in capsys.readouterr().out


def test_a_distributed_run_of_s3torchbenchmarking_is_as_fast_as_its_slowest_rank(tmp_path: Path) -> None:
    (connector, found), (disk, of_disk) = values(tmp_path, "s3torchbenchmarking_dcp")
    assert (connector, disk) == ("s3torchconnector", "disk")
    assert found == {"save_mibs": 2 / (1 / 100 + 1 / 150), "save_s": 2.5, "checkpoints": 2}
    assert of_disk == {"save_mibs": 100, "save_s": 3, "checkpoints": 1}, "what is no number is no figure"
    run = load_run(tmp_path)
    assert (run.scenario, run.started_at) == ("dcp_fsdp", "2025-03-06T09:50:00.500+00:00")
    assert run.host["instance_type"] == "g5.12xlarge"
    assert run.results[0].versions == {
        "python": "3.12.9", "torch": "2.6.0+cu124", "hydra-core": "1.3.2", "s3torchconnector": "1.3.2",
    }  # fmt: skip
    assert run.jobs[0].parameters["world_size"] == 2
    assert run.jobs[0].parameters == run.jobs[1].parameters, "who is measured is no parameter"
    assert run.results[0].disambiguator == "try1"


def test_a_throughput_of_samples_is_not_taken_for_one_of_bytes(tmp_path: Path) -> None:
    assert values(tmp_path, "s3torchbenchmarking_dataset") == [
        ("s3mapdataset", {"samples_per_s": 250, "wall_s": 4}),
        ("s3iterabledataset", {"throughput_mibs": 80, "wall_s": 5, "content_mib": 400}),
        ("fsspec", {}),
    ]
    failed = load_run(tmp_path).jobs[2]
    assert failed.failure == "it has no metrics: DDP training completed - no results file"
    assert load_run(tmp_path).jobs[0].figures["index_s"].reason


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scenario": "training"}, r"run_results\.json cannot be read: its scenario is 'training'"),
        ({"job_results": [{"config": {}, "metrics": {}}]}, "neither dataloader.kind nor checkpoint.storage"),
        ({"job_results": [{}]}, "no whole result of s3torchbenchmarking: KeyError: 'config'"),
    ],
)
def test_what_is_wrong_in_a_file_of_s3torchbenchmarking_is_told(
    changes: dict[str, object], told: str, tmp_path: Path
) -> None:
    content = json.loads((SAMPLES / "s3torchbenchmarking_dataset.json").read_bytes())
    (tmp_path / RUN_RESULTS_FILE).write_text(json.dumps(content | changes))
    with pytest.raises(ResultsError, match=told):
        load_run(tmp_path)
