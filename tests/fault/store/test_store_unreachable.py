"""What is said, and how soon, where no connection comes about."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scripted_s3 import ScriptedS3

from bucketbench.cluster.ports import held_port
from torchbucket.config import RetryConfig, StoreConfig
from torchbucket.errors import TransportError
from torchbucket.store import RequestRecord, Store, open_store

Opened = Callable[..., Store]
SOON = RetryConfig(initial_s=0.001, maximum_s=0.002, max_attempts=10)


@pytest.fixture
def refusing() -> Iterator[str]:
    with held_port("127.0.0.1") as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    most = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir()) + 8
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("endpoint", [None, "http://bucket.invalid"], ids=["port", "name"])
def test_an_address_where_nobody_ever_answered_is_given_up_after_few_attempts(
    opened: Opened, endpoint: str | None, refusing: str, records: list[RequestRecord]
) -> None:
    store = opened(endpoint=endpoint or refusing, retry=SOON)
    with pytest.raises(TransportError, match=r"check endpoint.*no server has ever answered") as caught:
        store.read("k")
    assert caught.value.attempts == 5
    assert len(records) == 5


def test_a_server_that_answered_before_is_waited_for(opened: Opened) -> None:
    with ScriptedS3() as server:
        server.objects["k"] = b"v"
        store = opened(endpoint=server.endpoint, retry=SOON)
        store.read("k")
        store.close()  # Another loop, and what is known of the server stays known.
    with pytest.raises(TransportError, match="gave up after 10 attempts"):
        store.read("k")


def test_no_descriptor_left_is_said_as_such(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = b"v"
    server.omits_length = True  # Each answer ends its connection, so that the next request needs another one.
    store = opened(retry=RetryConfig(initial_s=0.001, maximum_s=0.002, max_attempts=2))
    with pytest.raises(TransportError):
        store.read("k")
    unused = opened(retry=RetryConfig(max_attempts=1))
    unused._dialect.prepare()  # type: ignore[attr-defined]  # finds credentials, which takes files
    with no_descriptor_left():
        with pytest.raises(TransportError, match=r"no file descriptor left.*ulimit -n") as caught:
            store.read("k")
        with pytest.raises(TransportError, match=r"no file descriptor left.*ulimit -n"):
            unused.read("k")
    assert caught.value.attempts == 2


@pytest.mark.parametrize(
    ("variables", "through_it"),
    [
        ({"HTTP_PROXY": "{proxy}"}, True),
        ({"HTTP_PROXY": "{proxy}", "NO_PROXY": "127.0.0.1"}, False),
        ({"HTTP_PROXY": "{proxy}", "REQUEST_METHOD": "GET"}, False),
        ({"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "{proxy}"}, True),
    ],
    ids=["capitals", "exempt", "cgi", "small_letters_first"],
)
def test_a_proxy_in_capitals_is_used_as_other_clients_do(
    variables: dict[str, str], through_it: bool, refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    with ScriptedS3() as proxy:
        proxy.objects["k"] = b"through the proxy"
        for name, value in variables.items():
            monkeypatch.setenv(name, value.format(proxy=proxy.endpoint))
        store = open_store("s3://bucket", StoreConfig(endpoint=refusing, region="us-east-1", retry=SOON))
        if through_it:
            with contextlib.suppress(Exception):
                store.read("k")
        else:
            with pytest.raises(TransportError):
                store.read("k")
        assert bool(proxy.connections) == through_it
        store.close()
