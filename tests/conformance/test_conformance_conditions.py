"""Every store writes and deletes on a condition only where it holds; what a server ignores is declared, not assumed."""

from __future__ import annotations

import threading

import pytest
from conformance_subjects import PART_BYTES, Subject

from torchbucket.errors import ConfigError, NotFoundError, PreconditionFailedError, StoreError

SIZES = [3, PART_BYTES + 1]


def needs(subject: Subject, *conditions: str) -> None:
    missing = set(conditions) - subject.conditions
    if missing:
        pytest.skip(f"the server of {subject.name} ignores {missing}")


@pytest.mark.parametrize("size", SIZES)
def test_if_absent_never_replaces(writing: Subject, size: int) -> None:
    info = writing.store.write("k", bytes(size), if_absent=True)
    with pytest.raises(PreconditionFailedError, match="k"):
        writing.store.write("k", b"x" * size, if_absent=True)
    writer = writing.store.open_writer("k", if_absent=True)
    writer.write(b"x" * size)
    with pytest.raises(PreconditionFailedError, match="if_absent"):
        writer.close()
    assert writing.store.head("k").version == info.version
    assert [info.key for info in writing.store.list()] == ["k"]
    assert list(writing.store.list_uploads()) == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("streamed", [False, True])
def test_if_version_replaces_that_version_only(writing: Subject, size: int, streamed: bool) -> None:
    needs(writing, "version" if size < PART_BYTES else "version in parts")

    def write(data: bytes, version: str | None) -> str | None:
        if not streamed:
            return writing.store.write("k", data, if_version=version).version
        with writing.store.open_writer("k", if_version=version) as writer:
            writer.write(data)
            writer.close()
            return writer.info.version

    first = writing.put("k", b"first").version
    second = write(b"2" * size, first)
    assert second not in (None, first)
    with pytest.raises(PreconditionFailedError, match="if_version"):
        write(b"3" * size, first)
    assert writing.store.read("k", version=second).data == b"2" * size
    writing.store.delete("k")
    with pytest.raises(PreconditionFailedError):
        write(b"4" * size, second)
    assert list(writing.store.list()) == []
    assert list(writing.store.list_uploads()) == []


def test_one_of_many_rivals_wins(writing: Subject) -> None:
    """Each replaces the version that all of them saw; losers are told."""
    needs(writing, "version")
    seen = writing.put("k", b"seen").version
    outcomes: dict[int, str] = {}

    def contend(number: int) -> None:
        try:
            outcomes[number] = str(writing.store.write("k", b"%d" % number, if_version=seen).version)
        except PreconditionFailedError:
            outcomes[number] = "lost"

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = (number for number, outcome in outcomes.items() if outcome != "lost")
    assert len(outcomes) == 8
    found = writing.store.read("k")
    assert bytes(found.data) == b"%d" % winner
    assert found.info.version == outcomes[winner]


def test_a_delete_on_a_condition(writing: Subject) -> None:
    needs(writing, "delete")
    first = writing.put("k", b"first").version
    second = writing.put("k", b"second").version
    with pytest.raises(PreconditionFailedError, match="if_version"):
        writing.store.delete("k", if_version=first)
    assert bytes(writing.store.read("k").data) == b"second"
    writing.store.delete("k", if_version=second)
    with pytest.raises(NotFoundError):
        writing.store.head("k")
    writing.store.delete("k", if_version=second)  # Gone already, which is what was wanted.


def test_conditions_exclude_each_other(made: Subject) -> None:
    with pytest.raises(ConfigError, match="exclude each other"):
        made.store.open_writer("k", if_absent=True, if_version="1")
    with pytest.raises(ConfigError, match="exclude each other"):
        made.store.write("k", b"", if_absent=True, if_version="1")


@pytest.mark.parametrize("version", ["", "a\r\nx-evil: 1", "é"])
def test_what_can_be_no_version_is_refused(made: Subject, version: str) -> None:
    with pytest.raises(ConfigError, match="version"):
        made.store.write("k", b"", if_version=version)
    with pytest.raises(ConfigError, match="version"):
        made.store.delete("k", if_version=version)


def test_a_server_that_cannot_be_written_to_says_so(made: Subject) -> None:
    if made.writes:
        pytest.skip("it can")
    with pytest.raises(StoreError, match="HTTP 400"):
        made.store.write("k", b"content")
    with pytest.raises(StoreError, match="HTTP 400"), made.store.open_writer("k") as writer:
        writer.write(bytes(PART_BYTES + 1))
    assert list(made.store.list()) == []
