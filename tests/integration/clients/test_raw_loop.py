"""The bare libcurl loop: what arrives is right, what fails is said, and it goes on after either."""

from __future__ import annotations

import socket

import pytest
from served_clients import Served

from bucketbench.clients.transfer_loop import TransferLoop


@pytest.fixture
def loop() -> TransferLoop:
    return TransferLoop(transfers=3, ca_bundle=None)


def urls_of(served: Served, keys: list[str]) -> list[str]:
    return [f"{served.target.endpoint}/{served.target.bucket}/{served.target.prefix}{key}" for key in keys]


def test_more_urls_than_transfers_and_the_same_url_twice(loop: TransferLoop, served: Served) -> None:
    keys = [f"{i % 7:03d}.bin" for i in range(20)]
    found = dict(loop.contents(urls_of(served, keys)))
    assert [found[position] for position in range(20)] == [served.contents[key] for key in keys]


def test_no_url_is_no_request(loop: TransferLoop) -> None:
    assert list(loop.contents([])) == []


def test_an_answer_other_than_200_is_an_error_and_never_content(loop: TransferLoop, served: Served) -> None:
    keys = ["000.bin", "none.bin", "001.bin", "002.bin", "003.bin"]
    with pytest.raises(OSError, match="404"):
        list(loop.contents(urls_of(served, keys)))
    assert dict(loop.contents(urls_of(served, ["001.bin"]))) == {0: served.contents["001.bin"]}


def test_a_refused_connection_is_an_error(loop: TransferLoop, served: Served) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound and not listening, so that nobody else can
        with pytest.raises(OSError, match="libcurl error 7"):
            list(loop.contents([f"http://127.0.0.1:{bound.getsockname()[1]}/x"]))
    assert dict(loop.contents(urls_of(served, ["002.bin"]))) == {0: served.contents["002.bin"]}


def test_it_can_be_left_early_and_used_again(loop: TransferLoop, served: Served) -> None:
    contents = loop.contents(urls_of(served, [f"{i:03d}.bin" for i in range(10)]))
    next(contents)
    contents.close()  # type: ignore[attr-defined]  # a generator
    assert dict(loop.contents(urls_of(served, ["004.bin"]))) == {0: served.contents["004.bin"]}


def test_a_certificate_of_an_unknown_authority_is_refused(served_tls: Served) -> None:
    with pytest.raises(OSError, match=r"certificate|SSL"):
        list(TransferLoop(transfers=1, ca_bundle=None).contents(urls_of(served_tls, ["000.bin"])))
