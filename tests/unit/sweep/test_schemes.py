"""A client is refused on a target that it cannot read, before anything starts, with the clients that can."""

from __future__ import annotations

from pathlib import Path

import pytest
from composition import points_of_scenario

from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import PreflightError
from bucketbench.sweep.schemes import check_scheme


def points(*overrides: str, directory: Path | None = None) -> list[JobSettings]:
    return points_of_scenario("dataset", "repeat=0", *overrides, directory=directory)


@pytest.mark.parametrize(
    ("client", "target", "words"),
    [
        ("boto3", "local_gs", ["client=boto3 reads s3", "target=local_gs is gs", "gcsfs", "torchbucket-map"]),
        ("gcsfs", "local", ["client=gcsfs reads gs", "target=local is s3", "boto3", "obstore"]),
    ],
)
def test_the_refusal_names_the_clients_that_fit(client: str, target: str, words: list[str]) -> None:
    (point,) = points(f"client={client}", f"target={target}")
    with pytest.raises(PreflightError) as refused:
        check_scheme(point)
    for word in words:
        assert word in str(refused.value)
    fitting = str(refused.value).rpartition(": ")[2].split(", ")
    assert client not in fitting


def test_a_users_client_is_among_them(tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "mine.yaml").write_text("name: mine\n_target_: my_loader.Mine\n")
    (tmp_path / "client" / "broken.yaml").write_text("name: [\n")
    (point,) = points("client=boto3", "target=local_gs", directory=tmp_path)
    with pytest.raises(PreflightError, match=r"\bmine\b"):
        check_scheme(point)
    (own,) = points("client=mine", "target=local_gs", directory=tmp_path)
    check_scheme(own)


@pytest.mark.parametrize("target", ["local", "local_gs"])
def test_the_default_clients_of_a_target_can_read_it(target: str) -> None:
    found = points(f"target={target}")
    assert len(found) > 3
    for point in found:
        check_scheme(point)
