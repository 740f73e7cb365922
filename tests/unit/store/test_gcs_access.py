"""Where Cloud Storage is and who asks: by Application Default Credentials, with tokens that stay fresh and secret."""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from token_server import TokenServer

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError, PermissionDeniedError
from torchbucket.store import open_store
from torchbucket.store.gcs import access as gcs_access
from torchbucket.store.gcs.access import GcsAccess
from torchbucket.store.http import renewed_credentials

HTTPS = "https://storage.example.com"
VARIABLES = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "STORAGE_EMULATOR_HOST",
    "CLOUDSDK_CONFIG",
    "GCE_METADATA_HOST",
    "GCE_METADATA_IP",
    "GCE_METADATA_ROOT",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
    "SSL_CERT_FILE",
    "AWS_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "a-project")
    monkeypatch.setenv("NO_GCE_CHECK", "true")


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with TokenServer() as running:
        yield running


@pytest.fixture(scope="module")
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()).decode()


@pytest.fixture
def account(
    server: TokenServer, private_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Makes ``GOOGLE_APPLICATION_CREDENTIALS`` name a file of some kind, whose token comes from the server."""
    # Of a user's file google-auth does not read the address.
    monkeypatch.setattr("google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{server.url}/token")

    def make(kind: str = "service_account", **fields: object) -> None:
        subject = tmp_path / "subject"
        subject.write_text("a-subject-token")
        federated = {
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"{server.url}/token",
            "credential_source": {"file": str(subject)},
        }
        user = {
            "client_id": "i",
            "client_secret": "a-client-secret",
            "refresh_token": "a-refresh-token",
            "token_uri": f"{server.url}/token",
        }
        kinds: dict[str, dict[str, object]] = {
            "service_account": {
                "client_email": "a@b.iam.gserviceaccount.com",
                "private_key": private_key,
                "private_key_id": "1",
                "token_uri": f"{server.url}/token",
            },
            "authorized_user": user,
            "external_account": federated,
            "impersonated_service_account": {
                "service_account_impersonation_url": (
                    f"{server.url}/v1/projects/-/serviceAccounts/a@b.iam.gserviceaccount.com:generateAccessToken"
                ),
                "source_credentials": {"type": "authorized_user", **user},
            },
        }
        path = tmp_path / "credentials.json"
        path.write_text(json.dumps({"type": kind, **kinds[kind], **fields}))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))

    return make


def access(**fields: object) -> GcsAccess:
    return GcsAccess("bucket", StoreConfig(**{"endpoint": HTTPS, **fields}))  # type: ignore[arg-type]  # by name


def token_of(one: GcsAccess) -> str | None:
    one.prepare()
    return next((line.split()[-1] for line in one.lines() if line.startswith("authorization: Bearer ")), None)


KINDS = ["service_account", "authorized_user", "external_account"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_credentials(account: Callable[..., None], server: TokenServer, kind: str) -> None:
    account(kind)
    one = access()
    assert token_of(one) == "google-token-1"
    assert token_of(one) == "google-token-1"
    assert server.granted == 1
    assert not any("secret" in line for line in one.lines())


def test_impersonation(account: Callable[..., None], server: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    account("impersonated_service_account")
    monkeypatch.setattr("google.auth.iam._IAM_ENDPOINT", f"{server.url}/v1/{{}}:generateAccessToken")
    assert token_of(access()) == "google-token-2"  # The first one is the source's.
    assert server.paths[-1].endswith(":generateAccessToken")


def test_gclouds_own_file(account: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    account("authorized_user", quota_project_id="quota-project")
    (tmp_path / "gcloud").mkdir()
    (tmp_path / "credentials.json").rename(tmp_path / "gcloud" / "application_default_credentials.json")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    one = access()
    assert token_of(one) == "google-token-1"
    assert "x-goog-user-project: quota-project" in one.lines()
    payer = access(user_project="payer")
    payer.prepare()
    assert [line for line in payer.lines() if "project" in line] == ["x-goog-user-project: payer"]


def test_the_metadata_server(server: TokenServer, tmp_path: Path) -> None:
    """In a process of its own, since google-auth reads these variables when it is imported."""
    program = (
        "from torchbucket.config import StoreConfig\nfrom torchbucket.store.gcs.access import GcsAccess\n"
        f"one = GcsAccess('b', StoreConfig(endpoint={HTTPS!r}))\none.prepare()\nprint(one.lines())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "NO_GCE_CHECK"}
    environment |= {"GCE_METADATA_HOST": server.host, "GCE_METADATA_IP": server.host}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert "google-token-1" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("fields", "emulator", "origin"),
    [
        ({"endpoint": None}, None, "https://storage.googleapis.com"),
        ({"endpoint": "https://private.example.com/base/"}, None, "https://private.example.com/base"),
        ({"endpoint": None}, "http://127.0.0.1:4443/", "http://127.0.0.1:4443"),
        ({"endpoint": None}, "localhost:4443", "http://localhost:4443"),
        ({"endpoint": "http://127.0.0.1:1"}, "localhost:4443", "http://127.0.0.1:1"),
    ],
)
def test_the_endpoint(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], emulator: str | None, origin: str
) -> None:
    if emulator is not None:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator)
    assert access(anonymous=True, **fields).origin() == origin


def test_nobody_is_asked_for_credentials_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("google-auth was asked")

    monkeypatch.setattr(gcs_access, "_google_auth", refuse)
    assert token_of(access(anonymous=True)) is None
    assert token_of(access(endpoint="http://127.0.0.1:9")) is None
    assert token_of(access(endpoint="http://another-machine:9")) is None
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "emulator:4443")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/some/key.json")
    assert token_of(access(endpoint=None)) is None


def test_a_token_does_not_travel_in_the_clear(account: Callable[..., None]) -> None:
    account()
    assert token_of(access(endpoint="http://localhost:9")) is not None
    with pytest.raises(ConfigError, match="plain HTTP to another machine"):
        access(endpoint="http://storage.example.com").prepare()


@pytest.mark.parametrize("value", ["http://user:pass@h", "ftp://h", "http://", "http://h:x", "http://h?q"])
def test_a_wrong_emulator_is_named_and_not_quoted(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", value)
    with pytest.raises(ConfigError, match="STORAGE_EMULATOR_HOST") as caught:
        access(endpoint=None).prepare()
    assert "pass@" not in str(caught.value)


def test_no_credentials_say_how_to_give_them() -> None:
    with pytest.raises(PermissionDeniedError, match="application-default login") as caught:
        access().prepare()
    assert caught.value.uri == "gs://bucket"


def test_a_file_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(PermissionDeniedError, match=r"none\.json"):
        access().prepare()


def test_google_auth_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth.transport.requests", None)
    with pytest.raises(ConfigError, match=r"torchbucket\[gcs\]"):
        access().prepare()


def settle() -> None:
    """Wait for renewals that are under way."""
    for thread in threading.enumerate():
        if thread.name == "torchbucket-credentials":
            thread.join(60)


def test_a_token_is_renewed_before_it_ends(
    account: Callable[..., None], server: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    account()
    one = access()
    assert token_of(one) == "google-token-1"
    now_s = time.time()
    monkeypatch.setattr(renewed_credentials.time, "time", lambda: now_s + 3600 - 250)
    token_of(one)
    assert server.granted == 1  # With more than 3:45 to live the metadata server would give the same one again.
    monkeypatch.setattr(renewed_credentials.time, "time", lambda: now_s + 3600 - 200)
    token_of(one)
    settle()
    assert token_of(one) == "google-token-2"


def test_a_token_that_comes_again_just_so_is_not_fetched_for_every_read(
    account: Callable[..., None], private_key: str
) -> None:
    """The metadata server gives the token that it has while it has some minutes to live."""
    with TokenServer(lifetime_s=200) as server:
        account(token_uri=f"{server.url}/token")
        one = access()
        for _ in range(100):
            one.prepare()
            one.lines()
        settle()
        assert server.granted == 1


def test_a_renewal_that_fails_keeps_what_is_valid(
    account: Callable[..., None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TokenServer(lifetime_s=200) as server:
        account(token_uri=f"{server.url}/token")
        one = access()
        assert token_of(one) == "google-token-1"
        server.fails = True
        now_s = time.time()
        monkeypatch.setattr(renewed_credentials.time, "time", lambda: now_s + 30)
        with caplog.at_level(logging.WARNING):
            assert token_of(one) == "google-token-1"
            settle()
        assert "could not be renewed yet" in caplog.text
        asked = len(server.paths)
        assert token_of(one) == "google-token-1"
        settle()
        assert len(server.paths) == asked  # Not again for a while.
        monkeypatch.setattr(renewed_credentials.time, "time", lambda: now_s + 195)
        with pytest.raises(PermissionDeniedError, match="give no access token"):
            one.prepare()


def test_many_callers_fetch_one_token(account: Callable[..., None], server: TokenServer) -> None:
    account()
    server.wait_s = 0.2
    one = access()
    found: list[str | None] = []
    threads = [threading.Thread(target=lambda: found.append(token_of(one))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["google-token-1"] * 16
    assert server.granted == 1


def test_a_refused_token_is_replaced_once(
    account: Callable[..., None], server: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    account()
    one = access()
    assert token_of(one) == "google-token-1"
    assert not one.refused()  # As fresh as this, another one would be refused as well.
    now_s = time.time()
    monkeypatch.setattr(renewed_credentials.time, "time", lambda: now_s + 120)
    assert one.refused()
    assert token_of(one) == "google-token-2"
    assert one.refused()  # On the way since before the renewal.
    monkeypatch.setattr(renewed_credentials.time, "time", lambda: now_s + 130)
    assert not one.refused()  # This one concerns the new token.
    assert token_of(one) == "google-token-2"
    assert server.granted == 2


def test_a_refused_token_that_cannot_be_replaced_is_final(
    account: Callable[..., None], server: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    account()
    one = access()
    one.prepare()
    server.fails = True
    now_s = time.time()
    monkeypatch.setattr(renewed_credentials.time, "time", lambda: now_s + 120)
    assert one.refused()
    for thread in threading.enumerate():
        if thread.name == "torchbucket-credentials":
            thread.join(60)
    assert not one.refused()


def test_anonymous_refusals_are_final() -> None:
    one = access(anonymous=True)
    one.prepare()
    assert not one.refused()


def test_no_secret_is_shown(
    account: Callable[..., None], server: TokenServer, private_key: str, caplog: pytest.LogCaptureFixture
) -> None:
    account()
    store = open_store("gs://bucket", StoreConfig(endpoint=HTTPS, user_project="payer"))
    one = store._dialect.requests._access  # type: ignore[attr-defined]  # the part that knows
    with caplog.at_level(logging.DEBUG):
        one.prepare()
    shown = repr(store) + repr(one) + repr(vars(one)) + caplog.text + repr(pickle.dumps(store))
    for secret in ("google-token-1", private_key.splitlines()[3]):
        assert secret not in shown
    with pytest.raises(TypeError, match="do not cross"):
        pickle.dumps(one._renewed._fetched)


def test_what_a_token_server_says_is_not_quoted(account: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    account()
    from google.auth import exceptions
    from google.oauth2 import service_account

    secret = "ya29." + "s3cr3t" * 20

    def refuse(*_: object) -> None:
        raise exceptions.RefreshError(f"invalid_grant: {secret}", {"body": secret})

    monkeypatch.setattr(service_account.Credentials, "refresh", refuse)
    with pytest.raises(PermissionDeniedError, match="invalid_grant") as caught:
        access().prepare()
    assert secret not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_forked_child_keeps_the_token_and_finds_credentials_anew(
    account: Callable[..., None], server: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    account()
    one = access()
    one.prepare()
    one._renewed._lock.acquire()  # As another thread of the parent might.
    one.renew()
    assert token_of(one) == "google-token-1"
    now_s = time.time()
    monkeypatch.setattr(renewed_credentials.time, "time", lambda: now_s + 3600)
    assert token_of(one) == "google-token-2"


@pytest.mark.parametrize(
    ("scheme", "field", "value"),
    [
        ("gs", "region", "eu-west-1"),
        ("gs", "path_style", True),
        ("gs", "profile", "p"),
        ("gs", "requester_pays", True),
        ("gs", "sse", "AES256"),
        ("s3", "user_project", "p"),
        ("s3", "kms_key_name", "projects/p/locations/l/keyRings/r/cryptoKeys/k"),
    ],
)
def test_what_means_nothing_for_a_provider_is_refused(scheme: str, field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"StoreConfig.{field} means nothing for {scheme}://bucket"):
        open_store(f"{scheme}://bucket", StoreConfig(**{field: value}))  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("user_project", ""),
        ("user_project", "a\r\nx: y"),
        ("user_project", "Capitals"),
        ("user_project", 5),
        ("kms_key_name", "just-a-name"),
        ("kms_key_name", "projects/p/locations/l/keyRings/r/cryptoKeys/k\nx"),
    ],
)
def test_a_wrong_setting_is_named(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"StoreConfig.{field}"):
        StoreConfig(**{field: value})  # type: ignore[arg-type]  # by name
