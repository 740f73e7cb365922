"""Every store reads ranges as slices are read, into the caller's memory too, and never mixes versions."""

from __future__ import annotations

import itertools
import random

import pytest
from conformance_subjects import PART_BYTES, Subject

from torchbucket.errors import ConfigError, NotFoundError, ObjectChangedError
from torchbucket.store import Read

CONTENT = random.Random(7).randbytes(1000)
RANGES = [
    (0, None),
    (0, 1000),
    (0, 1),
    (999, 1000),
    (17, 400),
    (500, None),
    (0, 5000),
    (990, 2000),
    (5, 5),
    (0, 0),
    (5, 3),
]
BEYOND = [(1000, None), (1000, 1000), (1000, 1001), (4000, 5000), (4000, None)]


def test_a_range_is_a_slice(made: Subject) -> None:
    version = made.put("k", CONTENT).version
    for (start, stop), size_bytes in itertools.product(RANGES + BEYOND, (None, len(CONTENT))):
        case = f"[{start}:{stop}] of an object whose size is given as {size_bytes}"
        data = made.store.submit_read(Read(key="k", start=start, stop=stop, size_bytes=size_bytes)).result()
        assert bytes(data.data) == CONTENT[start:stop], case
        assert data.start == start, case
        assert (data.info.key, data.info.size_bytes, data.info.version) == ("k", 1000, version), case


def test_a_range_lands_in_the_callers_memory(made: Subject) -> None:
    made.put("k", CONTENT)
    for (start, stop), size_bytes in itertools.product(RANGES + BEYOND, (None, len(CONTENT))):
        case = f"[{start}:{stop}] of an object whose size is given as {size_bytes}"
        memory = bytearray(b"\xee" * 1010)
        read = Read(key="k", start=start, stop=stop, into=memoryview(memory)[5:], size_bytes=size_bytes)
        expected = CONTENT[start:stop]
        assert bytes(made.store.submit_read(read).result().data) == expected, case
        assert memory == b"\xee" * 5 + expected + b"\xee" * (1005 - len(expected)), case


def test_a_target_that_is_too_short_is_refused(made: Subject) -> None:
    made.put("k", CONTENT)
    with pytest.raises(ConfigError, match="holds 10 bytes but the range has 1000"):
        made.store.submit_read(Read(key="k", into=memoryview(bytearray(10)))).result()
    with pytest.raises(ConfigError, match="read-only"):
        made.store.submit_read(Read(key="k", into=memoryview(b"x" * 1000)))


def test_a_range_that_can_be_in_no_object_is_refused(made: Subject) -> None:
    with pytest.raises(ConfigError, match="start must be a whole number of bytes, at least 0; got -1"):
        made.store.read("k", start=-1)
    with pytest.raises(ConfigError, match=r"stop must be a whole number of bytes, at least 0; got 1\.5"):
        made.store.read("k", stop=1.5)  # type: ignore[arg-type]  # the mistake


def test_a_version_that_no_header_can_carry_is_refused(made: Subject) -> None:
    made.put("k", CONTENT)
    for version in ('"a"\r\nx-injected: 1', "a\nb", "", "\0", "é"):
        with pytest.raises(ConfigError, match="printable ASCII"):
            made.store.read("k", version=version)


def test_an_empty_object(made: Subject) -> None:
    made.put("empty", b"")
    assert made.store.head("empty").size_bytes == 0
    assert bytes(made.store.read("empty").data) == b""
    assert bytes(made.store.submit_read(Read(key="empty", size_bytes=0)).result().data) == b""
    assert bytes(made.store.read("empty", start=3, stop=9).data) == b""


def test_a_missing_object(made: Subject) -> None:
    made.put("there", b"")
    for call in (
        lambda: made.store.head("ther"),
        lambda: made.store.read("ther"),
        lambda: made.store.submit_read(Read(key="ther", size_bytes=4)).result(),
        lambda: made.store.read("ther", stop=0),
        lambda: made.store.copy("ther", "x"),
    ):
        with pytest.raises(NotFoundError, match="ther") as caught:
            call()
        assert isinstance(caught.value, FileNotFoundError)
        assert caught.value.uri == f"{made.store.uri}/ther"


def test_a_pinned_version_is_that_or_an_error(made: Subject) -> None:
    first = made.put("k", b"one")
    assert bytes(made.store.read("k", version=first.version).data) == b"one"
    second = made.put("k", b"two!")
    assert first.version != second.version
    with pytest.raises(ObjectChangedError):
        made.store.read("k", version=first.version)
    with pytest.raises(ObjectChangedError):
        made.store.read("k", start=1, stop=2, version=first.version)
    assert bytes(made.store.read("k", version=second.version).data) == b"two!"


def test_a_known_size_is_checked(made: Subject) -> None:
    made.put("k", b"four")
    for claimed in (3, 5):
        with pytest.raises(ObjectChangedError, match=f"size {claimed}"):
            made.store.submit_read(Read(key="k", size_bytes=claimed)).result()


@pytest.mark.parametrize("extra", [pytest.param(-1, marks=pytest.mark.nightly), 0, 1])
def test_a_large_object(made: Subject, extra: int) -> None:
    content = random.Random(extra).randbytes(2 * PART_BYTES + extra)
    made.put("large", content)
    for size_bytes, memory in itertools.product((None, len(content)), (None, memoryview(bytearray(len(content))))):
        data = made.store.submit_read(Read(key="large", into=memory, size_bytes=size_bytes)).result()
        assert data.data == content
        if memory is not None:
            assert memory == content
            memory[:] = bytes(len(content))
        piece = made.store.submit_read(
            Read(key="large", start=PART_BYTES - 7, stop=2 * PART_BYTES - 3, size_bytes=size_bytes)
        ).result()
        assert piece.data == content[PART_BYTES - 7 : 2 * PART_BYTES - 3]


def test_many_reads_at_once(made: Subject) -> None:
    for number in range(20):
        made.put(f"k{number}", str(number).encode() * 100)
    futures = [made.store.submit_read(Read(key=f"k{number % 20}", start=number % 7)) for number in range(200)]
    for number, future in enumerate(futures):
        assert bytes(future.result().data) == (str(number % 20).encode() * 100)[number % 7 :]
