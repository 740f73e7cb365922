"""What the measured process finds of clients, good and bad; in this process, and without a network."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sweeps import fetched

from bucketbench.clients.protocol import Target
from bucketbench.datagen import DatasetSpec, Manifest, ensure_dataset
from bucketbench.job.description import Component, Description, Job
from bucketbench.ranks import Ranks
from bucketbench.results.raw import read_raw
from bucketbench.scenarios.dataset.figures import FIGURES as DATASET_FIGURES
from bucketbench.scenarios.dataset.job import DatasetJob, LoaderSettings, LocalCopy
from bucketbench.scenarios.dataset.scenario import SCENARIO as DATASET
from bucketbench.scenarios.listing.job import ListingJob
from bucketbench.scenarios.listing.names import NamesSpec
from bucketbench.scenarios.listing.scenario import SCENARIO as LISTING
from bucketbench.scenarios.recording import Recorder
from bucketbench.worker import outcome_of

SAMPLES = 24
SAMPLE_BYTES = 4096
HERE = str(Path(__file__).parent)
TARGET = Target(scheme="s3", bucket="b", prefix="p/")
LOADER = LoaderSettings(
    num_workers=0, batch_size=4, prefetch_factor=2, start_method="auto", persistent_workers=True, pin_memory=False,
    shuffle=False,
)  # fmt: skip


def outcome(job: Job, directory: Path, measurement: str) -> dict[str, Any]:
    Description.of(job, measurement=measurement).write(directory)
    return outcome_of(Description.read(directory), directory, Ranks())


@pytest.fixture(scope="module")
def dataset_job(tmp_path_factory: pytest.TempPathFactory) -> DatasetJob:
    """The job of a client that is yet to be named, with its files made."""
    directory = tmp_path_factory.mktemp("data")
    spec = DatasetSpec(num_samples=SAMPLES, sample_size_bytes=SAMPLE_BYTES)
    manifest: Manifest = ensure_dataset(f"file://{directory / 'copy'}", spec, lock_directory=directory)
    listed = directory / "samples.jsonl"
    listed.write_text("".join(f"{json.dumps(entry.to_json())}\n" for entry in manifest.entries))
    return DatasetJob(
        client=Component(name="?", target="?"),
        model=Component(name="none", target="bucketbench.models.none.NoModel"),
        target=TARGET,
        samples_file=str(listed),
        loader=LOADER,
        epochs=1,
        min_measured_s=0.05,
        warmup_samples=4,
        seed=0,
        device="cpu",
        admin_url=None,
        local_copy=LocalCopy(directory=str(directory / "copy"), spec=spec.to_json()),
    )


@pytest.fixture
def measured(dataset_job: DatasetJob, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def measure(client: str, **changes: Any) -> dict[str, Any]:
        component = Component(name=client, target=f"sample_clients.{client}", search_path=(HERE,))
        return outcome(replace(dataset_job, client=component, **changes), tmp_path, DATASET.measurement)

    return measure


@pytest.mark.parametrize("client", ["Good", "GoodIterable"])
def test_as_many_epochs_as_it_takes(
    measured: Callable[..., dict[str, Any]], tmp_path: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There are dozens, and reading the memory of this process at their edges takes far longer than they do.
    monkeypatch.setattr(Recorder, "mark_edge", lambda self: None)
    found = measured(client, epochs=None)
    assert (found["status"], found["details"]["start_method"]) == ("ok", "none")
    epochs, rest = divmod(found["verification"]["checked"], SAMPLES)
    assert rest == 0
    assert epochs > 1
    figures = DATASET_FIGURES.of_job(*read_raw(tmp_path, ended=True))
    assert figures["wall_s"].value is not None
    assert figures["wall_s"].value >= 0.05
    assert figures["samples"].value == epochs * SAMPLES


# The workers of sweeps are forked, or come from a fork server in test_failing_clients.py.
def test_a_worker_that_is_spawned(measured: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    model = Component(name="decode", target="bucketbench.models.decode.DecodeModel", options={"side": 224})
    loader = replace(LOADER, num_workers=1, start_method="spawn", shuffle=True)
    found = measured("Good", epochs=2, loader=loader, model=model)
    assert (found["status"], found["reason"]) == ("ok", None)
    assert (found["details"]["start_method"], found["details"]["style"]) == ("spawn", "map")
    assert found["verification"]["checked"] == 2 * SAMPLES
    figures = DATASET_FIGURES.of_job(*read_raw(tmp_path, ended=True))
    assert figures["decode_s"].value is not None
    assert figures["decode_s"].value > 0
    assert fetched(tmp_path) == {
        ("warmup", -1): (4, {0}), ("measure", 0): (SAMPLES, {0}), ("measure", 1): (SAMPLES, {0}),
    }  # fmt: skip


def test_a_worker_that_exits_is_a_failure(measured: Callable[..., dict[str, Any]]) -> None:
    found = measured("WorkerExits", loader=replace(LOADER, num_workers=1))
    assert found["status"] == "failed"
    assert "exited unexpectedly" in found["reason"]
    assert "\n" not in found["reason"]


FAILURES = {
    "RaisesWhenBuilt": ("RuntimeError: cannot be built for this reason", None),
    "RaisesMidway": ("1 failed with an error; first: OSError: the connection was lost", {"errors": 1}),
    "StreamBreaks": ("1 failed with an error, ", {"checked": 7, "errors": 1, "missing": SAMPLES - 7 - 1}),
    "WrongBytes": ("1 arrived with wrong content", {"mismatched": 1}),
    "Missing": ("2 never arrived", {"missing": 2}),
    "Duplicated": ("1 arrived more than once", {"duplicated": 1}),
}


@pytest.mark.parametrize("client", FAILURES)
def test_a_failure_has_its_reason(measured: Callable[..., dict[str, Any]], client: str) -> None:
    words, counts = FAILURES[client]
    found = measured(client)
    assert found["status"] == "failed"
    assert words in found["reason"]
    assert "\n" not in found["reason"]
    if counts is None:
        assert found["verification"] is None
    else:
        assert {name: found["verification"][name] for name in counts} == counts


def test_damage_is_found_in_its_turn_in_the_warm_up_or_at_once_without_one(
    measured: Callable[..., dict[str, Any]],
) -> None:
    in_turn = measured("WrongBytes", verify_share=0.25, epochs=4)
    assert (in_turn["status"], in_turn["verification"]["mismatched"]) == ("failed", 1)
    assert in_turn["verification"]["checked"] == 4 * SAMPLES
    assert in_turn["verification"]["checked_by_size"] == 3 * SAMPLES
    passes, rest = divmod(in_turn["verification"]["checked_in_warmup"], 4)
    assert (rest, passes > 0) == (0, True)
    for changes in ({"warmup_samples": SAMPLES}, {"warmup_samples": 0}):
        found = measured("WrongBytes", verify_share=0.01, **changes)
        assert "arrived with wrong content; first: '000000011" in found["reason"]
    assert found["verification"]["checked_by_size"] == 0, "the first epoch, without a warm-up"
    found = measured("Good", verify_share=0.01)
    assert (found["status"], found["verification"]["checked_by_size"]) == ("ok", SAMPLES - 1), "one at least"


def test_no_epoch_follows_one_that_failed(measured: Callable[..., dict[str, Any]], capfd: Any) -> None:
    found = measured("Missing", epochs=None, min_measured_s=60.0)
    assert (found["verification"]["checked"], found["verification"]["missing"]) == (SAMPLES - 2, 2)
    measured("RaisesMidway", epochs=None, min_measured_s=60.0)
    told = capfd.readouterr().err
    assert told.count("Traceback") == 1, "the first failed sample's"
    assert "sample_clients.py" in told


@pytest.mark.parametrize("client", ["RaisesMidway", "WrongBytes"])
def test_failed_samples_count_no_bytes(measured: Callable[..., dict[str, Any]], tmp_path: Path, client: str) -> None:
    measured(client)
    figures = DATASET_FIGURES.of_job(*read_raw(tmp_path, ended=True))
    assert figures["samples"].value == SAMPLES - 1
    assert figures["content_mib"].value == (SAMPLES - 1) * SAMPLE_BYTES / 2**20
    assert figures["errors"].value == 1


WRONG_LISTINGS = {
    "Missing": ("missing", "1 never arrived"),
    "Duplicated": ("duplicated", "1 arrived more than once"),
    "WrongSize": ("mismatched", "3 arrived with wrong content"),
}


@pytest.mark.parametrize("client", WRONG_LISTINGS)
def test_a_wrong_listing_fails_and_says_what_is_wrong(tmp_path: Path, client: str) -> None:
    count, words = WRONG_LISTINGS[client]
    names = NamesSpec(count=30, shape="numbers", max_size_bytes=16)
    job = ListingJob(
        client=Component(name=client, target=f"sample_listers.{client}", search_path=(HERE,)),
        target=TARGET,
        min_measured_s=60.0,
        admin_url=None,
        names=names,
        passes=None,  # as many as it takes, but none after one that failed
        warmup_prefix=None,
    )
    found = outcome(job, tmp_path, LISTING.measurement)
    assert found["status"] == "failed"
    assert words in found["reason"]
    assert found["verification"][count] >= 1
    figures = LISTING.figures.of_job(*read_raw(tmp_path, ended=True))
    assert figures["errors"].value == found["verification"][count]
