"""Reads over random ranges, parts, faults and known or unknown sizes give what slicing plain bytes gives."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchbucket.config import RetryConfig, StoreConfig
from torchbucket.store import Read, Store, open_store
from torchbucket.store.http.store import HttpStore

sys.path.insert(0, str(Path(__file__).parents[2] / "fault" / "store"))
from scripted_s3 import Fault, ScriptedS3  # the scripted server is the fault tests'

CONTENT = bytes(range(256)) * 40 + b"end"
SIZE = len(CONTENT)


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedS3]:
    with ScriptedS3() as running:
        running.objects["k"] = CONTENT
        yield running


@pytest.fixture(scope="module")
def store(server: ScriptedS3) -> Iterator[Store]:
    config = StoreConfig(
        endpoint=server.endpoint, region="r", anonymous=True, retry=RetryConfig(initial_s=0.0, max_attempts=20)
    )
    opened = open_store("s3://bucket", config)
    yield opened
    opened.close()


cuts = st.integers(-1, 4000)
faults = st.lists(
    st.one_of(
        st.just(Fault()),
        st.just(Fault(status=500)),
        cuts.map(lambda cut: Fault(close_after=cut)),
        cuts.map(lambda cut: Fault(reset_after=cut)),
    ),
    max_size=6,
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.integers(0, SIZE + 50),
    length=st.none() | st.integers(0, SIZE + 50),
    part_bytes=st.integers(500, SIZE + 100),
    size_known=st.booleans(),
    into=st.booleans(),
    whole_answers=st.booleans(),
    faults=faults,
)
def test_any_read_is_a_slice(
    server: ScriptedS3,
    store: HttpStore,
    start: int,
    length: int | None,
    part_bytes: int,
    size_known: bool,
    into: bool,
    whole_answers: bool,
    faults: list[Fault],
) -> None:
    # Below S3's own 5 MiB, which the settings demand for writes: small parts make many in a small object.
    object.__setattr__(store.config, "part_size_bytes", part_bytes)
    server.ignores_ranges = whole_answers
    server.faults["get_object"].clear()
    server.faults["get_object"].extend(faults)
    stop = None if length is None else start + length
    memory = bytearray(b"\xee" * (SIZE + 60))
    data = store.submit_read(
        Read(
            key="k",
            start=start,
            stop=stop,
            into=memoryview(memory) if into else None,
            size_bytes=SIZE if size_known else None,
        )
    ).result(60)
    expected = CONTENT[start:stop]
    assert bytes(data.data) == expected
    assert data.start == start
    assert data.info.size_bytes == SIZE
    if into:
        assert memory == expected + b"\xee" * (len(memory) - len(expected))
