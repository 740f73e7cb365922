"""Cloud Storage with credentials that are demanded, over TLS or a proxy: refusals are told, and tokens renewed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import certifi
import pytest
from scripted_gcs import Say, ScriptedGcs

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket.config import RetryConfig, StoreConfig
from torchbucket.errors import PermissionDeniedError, StoreError, TransportError
from torchbucket.store import Read, Store, open_store

Opened = Callable[..., Store]


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["private"], public_buckets=["open"], require_auth=True, tls=True) as running:
        yield running


@pytest.fixture(autouse=True)
def _credentials(testbed: RunningTestbed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert testbed.credentials is not None
    account = testbed.credentials.service_accounts["default"]
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
    for name in ("SSL_CERT_FILE", "AWS_CA_BUNDLE", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", certifi.where())  # Worth less than the setting.


@pytest.fixture
def stores(testbed: RunningTestbed) -> Iterator[Opened]:
    opened: list[Store] = []

    def make(bucket: str = "private", **fields: object) -> Store:
        settings: dict[str, object] = {
            "endpoint": testbed.gcs_endpoint,
            "ca_bundle": str(testbed.ca_certificate),
            "retry": RetryConfig(initial_s=0.01, maximum_s=0.1, max_attempts=50),
            **fields,
        }
        opened.append(open_store(f"gs://{bucket}", StoreConfig(**settings)))  # type: ignore[arg-type]  # by name
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def test_a_service_account(stores: Opened) -> None:
    store = stores()
    store.write("k", b"content")
    assert bytes(store.read("k").data) == b"content"
    assert [info.key for info in store.list()] == ["k"]


def test_an_account_that_only_reads(stores: Opened, testbed: RunningTestbed, monkeypatch: pytest.MonkeyPatch) -> None:
    stores().write("k", b"content")
    assert testbed.credentials is not None
    viewer = testbed.credentials.service_accounts["viewer"]
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(viewer))
    store = stores()
    assert bytes(store.read("k").data) == b"content"
    for call in (
        lambda: store.write("k", b"other"),
        lambda: store.write("k", bytes(9 << 20)),
        lambda: store.delete("k"),
        lambda: store.copy("k", "l"),
        lambda: store.compose([store.head("k")], "l"),
    ):
        with pytest.raises(PermissionDeniedError, match="403"):
            call()


def test_anonymous(stores: Opened) -> None:
    stores("open").write("k", b"for all")
    assert bytes(stores("open", anonymous=True).read("k").data) == b"for all"
    with pytest.raises(PermissionDeniedError):
        stores(anonymous=True).read("k")
    with pytest.raises(PermissionDeniedError):
        list(stores(anonymous=True).list())


def test_a_certificate_that_is_not_trusted_is_named(stores: Opened) -> None:
    with pytest.raises(TransportError, match="certificate is not trusted"):
        stores("open", anonymous=True, ca_bundle=None).read("k")


def spoil(store: Store) -> None:
    """Have the store use a token that the server does not know, as if it had been revoked."""
    renewed = store._dialect.requests._access._renewed  # type: ignore[attr-defined]  # nothing else can revoke it
    renewed.prepare()
    renewed._fetched = dataclasses.replace(renewed._fetched, value=("authorization: Bearer revoked",))
    renewed._final_until_s = renewed._old_news_until_s = 0.0


def test_a_revoked_token_is_replaced_under_way(stores: Opened) -> None:
    store = stores()
    for number in range(30):
        store.write(f"k{number}", b"%d" % number)
    spoil(store)
    futures = [store.submit_read(Read(key=f"k{number}")) for number in range(30)]
    assert [bytes(future.result(60).data) for future in futures] == [b"%d" % number for number in range(30)]
    spoil(store)
    assert store.write("not there before", b"content", if_absent=True).size_bytes == 7


def test_a_token_that_stays_refused_is_an_error(
    stores: Opened,
    testbed: RunningTestbed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = stores()
    store.write("k", b"content")
    testbed.set_faults([{"kind": "error", "status": 401, "operations": ["get_object", "get_object_range"]}])
    with pytest.raises(PermissionDeniedError, match="401"):
        store.read("k")
    testbed.set_faults([])


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    answer = Say(body=b"content", headers=(("x-goog-generation", "7"),))
    with ScriptedGcs(answer) as proxy:
        monkeypatch.setenv("http_proxy", proxy.endpoint)
        store = open_store("gs://bucket", StoreConfig(endpoint="http://storage.invalid"))
        assert bytes(store.submit_read(Read(key="k", size_bytes=7)).result(60).data) == b"content"
        store.close()
    assert proxy.asked[0].target == "http://storage.invalid/bucket/k"


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    with ScriptedGcs() as gone:
        endpoint = gone.endpoint
    store = open_store(
        "gs://bucket", StoreConfig(endpoint=endpoint, retry=RetryConfig(initial_s=0.0, maximum_s=0.0, max_attempts=2))
    )
    with pytest.raises(StoreError, match="no connection"):
        store.head("k")
    store.close()
