"""GCS's credentials demanded of real clients: tokens fetched with a service account's key, and what each client does
when refused."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import google.oauth2.credentials
import obstore
import pytest
from gcsfs.core import GCSFileSystem  # Not the package's, which looks for gRPC for a minute.
from gcsfs.retry import HttpError
from google.api_core.exceptions import Forbidden
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import InvalidOperation, RefreshError
from google.cloud import storage
from google.oauth2 import service_account
from obstore.exceptions import PermissionDeniedError, UnauthenticatedError
from obstore.store import GCSStore

from buckettestbed import RunningTestbed, launch_testbed
from buckettestbed.auth.credentials import EXPIRED, OWNER, VIEWER, Credentials

SCOPES = ["https://www.googleapis.com/auth/devstorage.full_control"]
LARGE = bytes(range(256)) * (4 << 10)  # 1 MiB: four blocks of gcsfs, chunks of google-cloud-storage.
ODD_KEYS = ("a//b", "a b+c", "Ünïcode/日本", "x%2Fy", "q?x=1&y", "~t-_.!*'()")


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], require_auth=True, public_buckets=["open"]) as running:
        yield running


def credentials(testbed: RunningTestbed) -> Credentials:
    assert testbed.credentials is not None
    return testbed.credentials


def google_credentials(testbed: RunningTestbed, who: str | None) -> Any:
    """Returns google-auth's credentials: of a service account, by a token (`token:NAME`), of a service account with
    another's key (`forged`), or none."""
    known = credentials(testbed)
    if who is None:
        return AnonymousCredentials()
    if who.startswith("token:"):
        return google.oauth2.credentials.Credentials(known.tokens.get(who.removeprefix("token:"), "unknown"))
    account = json.loads(known.service_accounts[OWNER if who == "forged" else who].read_text())
    if who == "forged":
        account["private_key"] = json.loads(known.service_accounts[VIEWER].read_text())["private_key"]
    return service_account.Credentials.from_service_account_info(account, scopes=SCOPES)


class CloudStorage:
    """google-cloud-storage, over the JSON API."""

    def __init__(self, testbed: RunningTestbed, who: str | None, bucket: str) -> None:
        self.bucket = storage.Client(
            project="testbed",
            credentials=google_credentials(testbed, who),
            client_options={"api_endpoint": testbed.gcs_endpoint},
        ).bucket(bucket)

    def save(self, key: str, body: bytes) -> None:
        chunk_bytes = 256 << 10 if len(body) > 256 << 10 else None
        self.bucket.blob(key, chunk_size=chunk_bytes).upload_from_string(body, retry=None)

    def load(self, key: str) -> bytes:
        body: bytes = self.bucket.blob(key).download_as_bytes(retry=None)
        return body


class GcsFs:
    """gcsfs, over the JSON API."""

    def __init__(self, testbed: RunningTestbed, who: str | None, bucket: str) -> None:
        token: Any = "anon" if who is None else google_credentials(testbed, who)
        if who in (OWNER, VIEWER):
            token = str(credentials(testbed).service_accounts[who])  # It reads key files itself.
        self.bucket = bucket
        self.files = GCSFileSystem(
            project="testbed", endpoint_url=testbed.gcs_endpoint, token=token, skip_instance_cache=True
        )

    def save(self, key: str, body: bytes) -> None:
        with self.files.open(f"{self.bucket}/{key}", "wb", block_size=256 << 10) as file:
            file.write(body)

    def load(self, key: str) -> bytes:
        body: bytes = self.files.cat_file(f"{self.bucket}/{key}")
        return body


class Obstore:
    """obstore, over the XML API, with tokens that a service account signs for itself."""

    def __init__(self, testbed: RunningTestbed, who: str | None, bucket: str) -> None:
        known = credentials(testbed)
        signing: dict[str, Any] = {"skip_signature": True}
        if who is not None and who.startswith("token:"):
            token = known.tokens.get(who.removeprefix("token:"), "unknown")
            signing = {"credential_provider": lambda: {"token": token, "expires_at": None}}
        elif who is not None:
            signing = {"service_account": str(known.service_accounts[who])}
        self.store = GCSStore(
            bucket,
            config={"base_url": testbed.gcs_endpoint},
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
            **signing,
        )

    def save(self, key: str, body: bytes) -> None:
        obstore.put(self.store, key, body)

    def load(self, key: str) -> bytes:
        return bytes(obstore.get(self.store, key).bytes())


CLIENTS: dict[str, Callable[[RunningTestbed, str | None, str], Any]] = {
    "google-cloud-storage": CloudStorage,
    "gcsfs": GcsFs,
    "obstore": Obstore,
}


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """gcsfs asks six times with credentials that were refused, and waits random() + 2 ** (n - 1) seconds between."""
    monkeypatch.setattr("gcsfs.retry.random", SimpleNamespace(random=lambda: -100.0))


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, testbed: RunningTestbed) -> Any:
    """Returns a function that makes one of the clients for someone."""
    return lambda who, bucket="data": CLIENTS[request.param](testbed, who, bucket)


@pytest.mark.parametrize("who", [OWNER, f"token:{OWNER}"])
def test_a_service_account_or_a_token_opens_the_bucket(client: Any, testbed: RunningTestbed, who: str) -> None:
    made = client(who)
    testbed.reset_counts()
    for key in ODD_KEYS:
        if isinstance(made, Obstore) and key == "a//b":  # It takes names for paths.
            continue
        made.save(key, b"small")
        assert made.load(key) == b"small"
    made.save("large", LARGE)
    assert made.load("large") == LARGE
    counted = testbed.counts()
    assert not [status for status in counted["errors"] if status in ("400", "401", "403")]
    fetches_tokens = who == OWNER and not isinstance(made, Obstore)
    assert ("token" in counted["requests"]) is fetches_tokens


@pytest.mark.parametrize("who", [VIEWER, f"token:{VIEWER}"])
def test_a_viewer_may_only_read(client: Any, who: str) -> None:
    client(OWNER).save("seen", b"body")
    made = client(who)
    assert made.load("seen") == b"body"
    with pytest.raises((Forbidden, OSError, PermissionDeniedError), match=r"(?i)may only read") as caught:
        made.save("seen", b"other")
    assert type(caught.value) is {CloudStorage: Forbidden, GcsFs: OSError, Obstore: PermissionDeniedError}[type(made)]


@pytest.mark.parametrize("who", [f"token:{EXPIRED}", "token:unknown"])
def test_a_token_that_is_not_valid(client: Any, testbed: RunningTestbed, who: str) -> None:
    made = client(who)
    raised = {CloudStorage: RefreshError, GcsFs: HttpError, Obstore: UnauthenticatedError}[type(made)]
    testbed.reset_counts()
    with pytest.raises(raised) as caught:
        made.load("key")
    assert set(testbed.counts()["errors"]) == {"401"}
    assert credentials(testbed).tokens[EXPIRED] not in str(caught.value)


def test_anyone_may_read_the_public_bucket_and_no_other(client: Any) -> None:
    for bucket in ("data", "open"):
        client(OWNER, bucket).save("key", b"body")
    assert client(None, "open").load("key") == b"body"
    private = client(None)
    # google-auth takes the JSON API's 401 for a token to be renewed; the XML API answers 403.
    raised = {CloudStorage: InvalidOperation, GcsFs: HttpError, Obstore: PermissionDeniedError}
    with pytest.raises(raised[type(private)]):
        private.load("key")


@pytest.mark.parametrize("make", [CloudStorage, GcsFs])
def test_a_service_account_with_another_key_gets_no_token(testbed: RunningTestbed, make: Callable[..., Any]) -> None:
    made = make(testbed, "forged", "data")
    testbed.reset_counts()
    with pytest.raises((RefreshError, HttpError), match=r"invalid JWT signature|Invalid Credentials"):
        made.load("key")
    counted = testbed.counts()
    assert (set(counted["requests"]), set(counted["errors"])) == ({"token"}, {"400"})


def fetched(url: str) -> tuple[int, bytes]:
    """Opens an address without credentials."""
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_signed_urls_of_three_clients(testbed: RunningTestbed) -> None:
    cloud, files, store = (make(testbed, OWNER, "data") for make in (CloudStorage, GcsFs, Obstore))
    minute = timedelta(seconds=60)
    for key in ODD_KEYS:
        cloud.save(key, b"body")
        signed = [
            cloud.bucket.blob(key).generate_signed_url(
                version=version, expiration=minute, api_access_endpoint=testbed.gcs_endpoint
            )
            for version in ("v2", "v4")
        ]
        for url in [*signed, files.files.sign(f"data/{key}")]:
            assert fetched(url) == (200, b"body"), url
            status, document = fetched(url.replace("/data/", "/open/"))
            assert (status, b"SignatureDoesNotMatch" in document) == (403, True)
    # obstore signs for Google's own host, and names with some characters otherwise than Google documents.
    cloud.save("plain name", b"body")
    assert fetched(obstore.sign(store.store, "GET", "plain name", minute)) == (200, b"body")


def test_tokens_near_their_end_are_renewed() -> None:
    # google-auth renews a token from 225 s before its end on, so it asks for one with every request here.
    with launch_testbed(buckets=["data"], require_auth=True, token_lifetime_s=200.0) as testbed:
        made = CloudStorage(testbed, OWNER, "data")
        for body in (b"one", b"two"):
            made.save("key", body)
            assert made.load("key") == body
        counted = testbed.counts()
        assert counted["requests"]["token"] >= 4
        assert not counted["errors"]
