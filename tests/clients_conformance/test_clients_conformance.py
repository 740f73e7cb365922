"""Every behaviour through every client; the outcomes are the table in docs/testbed.md."""

from __future__ import annotations

import contextlib

import behaviours_listing  # noqa: F401 - fills the list of behaviours, in the order of these imports
import behaviours_names  # noqa: F401
import behaviours_objects  # noqa: F401
import behaviours_tls
import behaviours_writing  # noqa: F401
import pytest
from behaviour import BEHAVIOURS
from client_shape import Bench, Client, NoCallError, Place
from clients import CLIENTS
from testbed_tables import Table
from wire import Wire

TABLE = Table(name="clients", corner="behaviour", rows=list(BEHAVIOURS), columns=list(CLIENTS))


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("words", BEHAVIOURS)
def test_behaviour(words: str, name: str, request: pytest.FixtureRequest) -> None:
    kind = CLIENTS[name]
    secure = words in behaviours_tls.TLS
    testbed = request.getfixturevalue("clients_tls_testbed" if secure else "clients_testbed")
    with contextlib.closing(Wire(testbed)) as wire:
        place = Place.of(testbed, wire.bucket)
        departure = kind.departs.get(words)
        try:
            bench = Bench(client=kind(place), place=place, wire=wire, testbed=testbed)
            (departure.shown if departure else BEHAVIOURS[words])(bench)
        except NoCallError:
            assert departure is None
            TABLE.record(words, name, "no call")
            return
    TABLE.record(words, name, "differs" if departure else "yes", note=departure.says if departure else None)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_declares_what_it_lacks_and_nothing_else(name: str) -> None:
    kind = CLIENTS[name]
    assert set(kind.departs) <= set(BEHAVIOURS)
    for call in kind.lacks:
        assert getattr(kind, call) is getattr(Client, call), f"{name} has {call} and says it has not"


def test_the_table_is_that_of_this_run(write_tables: bool) -> None:
    TABLE.settle(write=write_tables)
