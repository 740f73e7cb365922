"""Every configured client of tar shards against the testbed: every sample, whole, once, as the harness checks it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from served_clients import BUCKET, Case, all_cases, build_client, client_config
from torch.utils.data import DataLoader

from bucketbench.clients.protocol import Target
from bucketbench.datagen import DatasetSpec, ensure_dataset
from bucketbench.errors import ConfigurationError
from bucketbench.scenarios.dataset.expected_samples import expected_samples
from bucketbench.scenarios.dataset.sample_checks import Received, SampleCheck, read_sample_check
from buckettestbed.launch import RunningTestbed, launch_testbed

SPEC = DatasetSpec(num_samples=23, sample_size_bytes=3000, samples_per_shard=5, extensions=("cls", "json"), seed=3)
CASES = [case for case in all_cases() if case.reads_shards]


@dataclass(frozen=True, kw_only=True)
class Shards:
    """The same shards on one testbed, and what is expected of each kind of client."""

    testbed: RunningTestbed
    target: Target
    directory: Path

    def target_of(self, scheme: str) -> Target:
        if scheme == "s3":
            return self.target
        return replace(self.target, scheme="gs", endpoint=self.testbed.gcs_endpoint, region=None, anonymous=True)

    def check(self, name: str) -> SampleCheck:
        decoded = bool(client_config(name).get("decoded"))
        path = self.directory / ("decoded" if decoded else "members")
        return read_sample_check(path, samples="members", decoded=decoded)


# Over TLS at night: the same addresses and certificates carry the clients of objects on each commit.
@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.nightly)], ids=["plain", "tls"])
def shards(request: pytest.FixtureRequest, credentials: None, tmp_path_factory: Any) -> Iterator[Shards]:
    directory = tmp_path_factory.mktemp("shards")
    with launch_testbed(buckets=[BUCKET], tls=request.param) as testbed:
        ca_bundle = str(testbed.ca_certificate) if testbed.ca_certificate else None
        target = Target(
            scheme="s3", bucket=BUCKET, prefix="tar/", endpoint=testbed.s3_endpoint, region="us-east-1",
            path_style=True, ca_bundle=ca_bundle,
        )  # fmt: skip
        manifest = ensure_dataset(
            target.uri, SPEC, region="us-east-1", endpoint=testbed.s3_endpoint, path_style=True, ca_bundle=ca_bundle,
            processes=1, lock_directory=directory,
        )  # fmt: skip
        for name, pictures in (("members", False), ("decoded", True)):
            expected = expected_samples(manifest, members=True, pictures=pictures)
            (directory / name).write_text("".join(f"{json.dumps(sample)}\n" for sample in expected))
        yield Shards(testbed=testbed, target=target, directory=directory)


@pytest.fixture(autouse=True)
def trust_is_not_carried_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def is_slow(case: Case) -> bool:
    return case.name == "webdataset-aws"  # a Python program for each shard


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.nightly if is_slow(case) else []) for case in CASES], ids=str
)
def test_every_sample_in_the_shards_arrives_whole_and_once(case: Case, shards: Shards) -> None:
    program = client_config(case.name)["options"].get("program")
    if program is not None and shutil.which(program) is None:
        pytest.skip(f"this machine lacks the program {program}")
    target = shards.target_of(case.scheme)
    dataset, check = build_client(case.name).dataset(target), shards.check(case.name)
    # Over TLS without workers, in the clear with: each has what the other may break.
    workers = 0 if target.ca_bundle else 2
    loader = DataLoader(
        dataset,
        batch_size=4,
        num_workers=workers,
        collate_fn=partial(positions, check),  # in the worker, as a job does it: views cannot be sent
        multiprocessing_context="fork" if workers else None,
    )
    for _ in range(2):
        assert sorted(position for batch in loader for position in batch) == list(range(23))


def positions(check: SampleCheck, samples: list[Any]) -> list[int | str]:
    """The position of each sample that is right, and what is wrong with each other one."""
    received = [check.received(sample, lambda _: True) for sample in samples]
    return [found.position if isinstance(found, Received) else str(found) for found in received]


@pytest.mark.parametrize("name", ["torchbucket-tar", "s3torchconnector-tar", "webdataset"])
def test_a_pass_that_is_cut_short_leaves_nothing_running(name: str, shards: Shards) -> None:
    samples = iter(build_client(name).dataset(shards.target))
    key, fields = next(samples)
    assert sorted(fields) == ["cls", "jpg", "json"]
    assert json.loads(bytes(fields["json"]))["key"] == key
    close = getattr(samples, "close", None)
    if close is not None:
        close()


def test_a_program_that_is_not_offered_is_refused() -> None:
    from bucketbench.clients.webdataset import WebDataset

    with pytest.raises(ConfigurationError, match=r"program must be one of curl, aws; got 'wget'"):
        WebDataset(program="wget")  # type: ignore[arg-type]  # wrong on purpose
