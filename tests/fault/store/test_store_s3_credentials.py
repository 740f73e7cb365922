"""Credentials of AWS that end while a store is used: renewed aside, and once more where the server refuses them."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scripted_s3 import SECRET, Fault, ScriptedS3, error_body

from torchbucket.errors import PermissionDeniedError
from torchbucket.store import Store
from torchbucket.store.http import renewed_credentials
from torchbucket.store.s3.access import Access

Opened = Callable[..., Store]


class Grantor:
    """A credential process, whose n-th keys are ``KEYn``; a grant waits after ``block``, and fails after ``fail``."""

    def __init__(self, directory: Path) -> None:
        self._grants = directory / "grants"
        self._gate = directory / "gate"
        self._failing = directory / "failing"
        self._life = directory / "life"
        self._grants.write_text("")
        self.lives(3600)
        (directory / "program.sh").write_text(
            f"""echo x >> {self._grants}
while [ -e {self._gate} ]; do sleep 0.01; done
[ -e {self._failing} ] && {{ echo "refused with {SECRET}" >&2; exit 1; }}
N=$(wc -l < {self._grants} | tr -d ' ')
printf '{{"Version":1,"AccessKeyId":"KEY%s","SecretAccessKey":"{SECRET}","Expiration":"%s"}}' $N "$(cat {self._life})"
"""
        )
        (directory / "config").write_text(f"[profile p]\ncredential_process = sh {directory / 'program.sh'}\n")

    @property
    def granted(self) -> int:
        return len(self._grants.read_text().splitlines())

    def lives(self, seconds: float) -> None:
        """So long the keys of later grants live."""
        self._life.write_text(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds)))

    def block(self) -> None:
        self._gate.touch()

    def unblock(self) -> None:
        self._gate.unlink(missing_ok=True)

    def fail(self) -> None:
        self._failing.touch()


@pytest.fixture
def grantor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Grantor]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    found = Grantor(tmp_path)
    yield found
    found.unblock()
    settle()


def settle() -> None:
    """Wait for renewals that are under way."""
    for thread in threading.enumerate():
        if thread.name == "torchbucket-credentials":
            thread.join(60)


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Go on in the future, by the clock that decides when credentials are renewed."""
    now_s = time.time() + seconds
    monkeypatch.setattr(renewed_credentials.time, "time", lambda: now_s)


def keys_of(server: ScriptedS3, kind: str = "get_object") -> list[str]:
    return [seen.headers["authorization"].split("Credential=")[1].split("/")[0] for seen in server.of(kind)]


def test_neither_reads_nor_forks_wait_for_a_slow_renewal(
    server: ScriptedS3, opened: Opened, grantor: Grantor, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.objects["k"] = b"content"
    store = opened(profile="p")
    grantor.lives(800)  # less than the 15 minutes before the end at which a renewal begins
    store.read("k")
    settle()
    before = grantor.granted
    grantor.block()
    later(monkeypatch, 60)
    assert bytes(store.read("k").data) == b"content"
    child = multiprocessing.get_context("fork").Process(target=os.getpid)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert bytes(store.read("k").data) == b"content"
    grantor.unblock()
    settle()
    assert grantor.granted == before + 1
    store.read("k")
    assert keys_of(server)[-1] == f"KEY{grantor.granted}"
    assert keys_of(server)[-2] == f"KEY{before}"


def test_a_renewal_that_fails_rejects_nothing_while_the_keys_are_valid(
    server: ScriptedS3,
    opened: Opened,
    grantor: Grantor,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.objects["k"] = b"content"
    store = opened(profile="p")
    grantor.lives(400)
    store.read("k")
    settle()
    grantor.fail()
    later(monkeypatch, 60)
    for _ in range(3):
        assert bytes(store.read("k").data) == b"content"
        settle()
    assert "could not be renewed yet" in caplog.text
    # Since nothing valid is left, the next one waits and says why.
    later(monkeypatch, 500)
    with pytest.raises(PermissionDeniedError, match="could not be read or refreshed"):
        store.read("k")


@pytest.mark.parametrize("code", ["ExpiredToken", "TokenRefreshRequired"])
def test_an_epoch_goes_on_where_the_server_says_that_the_keys_have_ended(
    server: ScriptedS3, opened: Opened, grantor: Grantor, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    server.objects["k"] = b"content"
    store = opened(profile="p")
    store.read("k")
    later(monkeypatch, 120)  # What was just granted is not replaced: new keys would be refused as well.
    server.faults["get_object"].extend([Fault(status=400, body=error_body(code))] * 2)
    assert bytes(store.read("k").data) == b"content"
    settle()
    assert bytes(store.read("k").data) == b"content"
    assert (keys_of(server)[0], keys_of(server)[-1]) == ("KEY1", "KEY2")
    assert grantor.granted == 2


def test_a_head_that_is_refused_after_the_keys_have_ended_is_sent_again(
    server: ScriptedS3, opened: Opened, grantor: Grantor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to HEAD has no body, and so no word for what is wrong."""
    server.objects["k"] = b"content"
    store = opened(profile="p")
    store.head("k")
    later(monkeypatch, 120)
    # The machine was asleep after this caller had looked.
    monkeypatch.setattr(Access, "prepare", lambda self: None)
    later(monkeypatch, 4000)
    server.faults["head_object"].append(Fault(status=400))
    assert store.head("k").size_bytes == 7
    settle()
    assert grantor.granted == 2


def test_keys_that_are_refused_for_good_are_an_error(
    server: ScriptedS3, opened: Opened, grantor: Grantor, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.objects["k"] = b"content"
    store = opened(profile="p")
    store.read("k")
    later(monkeypatch, 120)
    server.faults["get_object"].extend([Fault(status=400, body=error_body("ExpiredToken"))] * 50)
    later(monkeypatch, 240)
    with pytest.raises(PermissionDeniedError, match="expired"):
        store.read("k")
    assert grantor.granted == 2


def test_keys_of_the_environment_that_have_ended_are_an_error(server: ScriptedS3, opened: Opened) -> None:
    server.faults["get_object"].extend([Fault(status=400, body=error_body("ExpiredToken"))] * 50)
    with pytest.raises(PermissionDeniedError, match="get new ones"):
        opened().read("k")
    assert server.count("get_object") == 1


def test_what_a_credential_process_says_shows_no_secret(opened: Opened, grantor: Grantor) -> None:
    grantor.fail()
    with pytest.raises(PermissionDeniedError, match="could not be read or refreshed") as caught:
        opened(profile="p").read("k")
    assert caught.value.__cause__ is None
