"""Wrong options of clients, as they are found before a sweep's first job."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bucketbench.job.description import Component
from bucketbench.job.options import _problem

CONF = Path(__file__).parents[3] / "conf"

WRONG = [
    ("torchbucket.TorchbucketMap", {"concurency": 8}, "no option concurency: did you mean concurrency?"),
    ("torchbucket.TorchbucketIterable", {"concurrency": "many"}, "concurrency must be a whole number"),
    ("torchbucket.TorchbucketMap", {"region": "eu-central-1"}, "no option region"),
    ("boto3.Boto3Threads", {"thread": 3}, "no option thread: did you mean threads? (the options are: threads)"),
    ("boto3.Boto3", {"threads": 3}, "(the options are: none)"),
    ("boto3.Boto3Threads", {"threads": "many"}, "threads=many cannot be used: expected a number from 1"),
    ("raw.Raw", {"transfers": 0}, "transfers=0 cannot be used: expected a number from 1"),
    ("listing.google_storage.GoogleStoragePages", {"few_fields": "yes"}, "expected true or false"),
    ("listing.dataflux.DatafluxFastList", {"processes": "all"}, "expected a number from 1 or null"),
    ("s3torchconnector.S3TorchConnectorMap", {"reader": "sequental"}, "expected one of sequential, range"),
    ("listing.torchbucket.TorchbucketColumns", {"list_page_sise": 3}, "did you mean list_page_size?"),
    ("checkpoint.torchbucket.Torchbucket", {"multipart": False, "part_bytes": 1}, "no option part_bytes"),
    ("lightning.torchbucket.Torchbucket", {"hedge_shares": 0.1}, "did you mean hedge_share?"),
    ("dcp.torchbucket.Torchbucket", {"thread_count": 2, "concurrenci": 1}, "did you mean concurrency?"),
]


def test_a_wrong_option_is_told_with_what_fits() -> None:
    for target, options, words in WRONG:
        client = Component(name="x", target=f"bucketbench.clients.{target}", options=options)
        assert words in str(_problem(client)), target


def test_of_a_users_own_client_the_names_are_looked_at_and_it_is_not_built(tmp_path: Path) -> None:
    (tmp_path / "users_own.py").write_text(
        "class Mine:\n    def __init__(self, *, size=1):\n        raise OSError('no service yet')\n"
    )

    def problem(**options: object) -> str | None:
        return _problem(Component(name="x", target="users_own.Mine", search_path=(str(tmp_path),), options=options))

    assert problem(size=2) is None
    assert "did you mean size?" in str(problem(sice=2))


@pytest.mark.nightly
def test_every_client_that_comes_with_bucketbench_takes_its_options() -> None:
    for path in sorted(CONF.glob("*/client/*.yaml")):
        fields = yaml.safe_load(path.read_text())
        options = fields.get("options") or {}
        if any("${" in str(value) for value in options.values()):
            continue
        assert _problem(Component(name=path.stem, target=fields["_target_"], options=options)) is None, path
