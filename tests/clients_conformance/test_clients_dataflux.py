"""gcs-torch-dataflux beyond the table: its data sets with and without compose, and its listing in parallel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from behaviour import noise
from behaviours_listing import NAMES, crowded_bucket
from client_dataflux import Dataflux
from client_shape import Place
from dataflux_process import ask
from wire import Wire

from buckettestbed import RunningTestbed

pytestmark = pytest.mark.nightly  # Its environment may have to be made first.


@pytest.fixture
def wire(clients_testbed: RunningTestbed) -> Iterator[Wire]:
    with contextlib.closing(Wire(clients_testbed)) as made:
        yield made


@pytest.mark.parametrize("composes", [True, False], ids=["compose", "plain"])
@pytest.mark.parametrize("kind", ["map", "iterable"])
def test_a_data_set(kind: str, composes: bool, wire: Wire, clients_testbed: RunningTestbed) -> None:
    # More than the 32 that one compose takes.
    samples = {f"samples/{number:03} +é": noise(1000 + number, seed=number) for number in range(70)}
    for name, body in samples.items():
        wire.put(name, body)
    wire.put("other", b"x")
    clients_testbed.reset_counts()
    client = Dataflux(Place.of(clients_testbed, wire.bucket))
    assert client.data_set(kind, "samples/", composes=composes) == samples
    counts = clients_testbed.counts()["requests"]
    if composes:
        assert (counts["compose_object"], counts["get_object"], counts["delete_object"]) == (3, 3, 3)
        assert counts["test_permissions"] == 1
    else:
        assert counts["get_object"] == len(samples)
        assert "compose_object" not in counts
    assert wire.names() == ["other", *samples]  # Nothing composed is left.


def test_a_listing_that_processes_share(clients_testbed: RunningTestbed) -> None:
    client = Dataflux(Place.of(clients_testbed, crowded_bucket(clients_testbed)))
    found = ask("listing", place=client.place, prefix="pages/", processes=3)
    assert [tuple(entry) for entry in found] == [(name, 1) for name in NAMES]
