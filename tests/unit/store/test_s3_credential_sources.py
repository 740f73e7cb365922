"""The sources of AWS credentials that ask a server: web identity, the container's and the instance's role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from token_server import TokenServer

from torchbucket.config import StoreConfig
from torchbucket.store.s3.access import Access

VARIABLES = (
    "AWS_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_EC2_METADATA_DISABLED",
)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with TokenServer() as running:
        yield running


def found(**fields: object) -> tuple[str, str | None]:
    config = StoreConfig(region="eu-west-1", endpoint="http://127.0.0.1:9", **fields)  # type: ignore[arg-type]  # by name
    access = Access("bucket", config)
    access.prepare()
    credentials = access.credentials()
    assert credentials is not None
    assert "secret" not in repr(credentials)
    return credentials.access_key, credentials.token


def test_web_identity(server: TokenServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a pod of a cluster has it: a role, and a file with the token that the cluster renews."""
    (tmp_path / "token").write_text("a-cluster-token")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
    assert found() == ("ASIAWEB", "web-token")
    (form,) = server.forms
    assert (form["Action"], form["WebIdentityToken"]) == ("AssumeRoleWithWebIdentity", "a-cluster-token")


def test_web_identity_of_a_profile(server: TokenServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-cluster-token")
    (tmp_path / "config").write_text(
        f"[profile web]\nrole_arn = arn:aws:iam::1:role/r\nweb_identity_token_file = {tmp_path / 'token'}\n"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
    assert found(profile="web") == ("ASIAWEB", "web-token")


def test_the_containers_role(server: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/container")
    assert found() == ("ASIACONTAINER", "machine-token")


def test_the_instances_role(server: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url)
    assert found() == ("ASIAINSTANCE", "machine-token")
    assert server.paths[0] == "/latest/api/token"  # IMDSv2


def test_the_environment_comes_first(server: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/container")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "environment-secret")
    assert found() == ("AKIAENVIRONMENT", None)
    assert server.paths == []
