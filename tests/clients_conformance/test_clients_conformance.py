"""Every behaviour through every client; the outcomes are the table in docs/testbed.md.

The table tells of other projects, so it is made at night; on each commit a client saves and loads.
"""

from __future__ import annotations

import contextlib

import behaviours_exchange
import behaviours_listing
import behaviours_names
import behaviours_objects
import behaviours_tls
import behaviours_writing
import pytest
from behaviour import behaviours_in
from client_dataflux import Dataflux
from client_shape import Bench, Client, NoCallError, Place
from clients import CLIENTS
from testbed_tables import Table
from wire import Wire

BEHAVIOURS = behaviours_in(
    behaviours_objects,
    behaviours_listing,
    behaviours_names,
    behaviours_writing,
    behaviours_tls,
    behaviours_exchange,
)
TABLE = Table(name="clients", corner="behaviour", rows=list(BEHAVIOURS), columns=list(CLIENTS))


ON_EACH_COMMIT = "save, then load"


def _cases() -> list[object]:
    """Returns each client with each behaviour; those that need dataflux's environment last, for it may still be made.

    That takes half a minute, and longer where the package index is slow.
    """
    cases = [(name, words) for words in BEHAVIOURS for name in CLIENTS]
    waiting = [case for case in cases if Dataflux.name in case or behaviours_exchange.EXCHANGE in case]
    ready = sorted((case for case in cases if case not in waiting), key=lambda case: list(CLIENTS).index(case[0]))
    often = [case for case in ready if ON_EACH_COMMIT in case]
    return [
        *often,
        *(pytest.param(*case, marks=pytest.mark.nightly) for case in [*ready, *waiting] if case not in often),
    ]


@pytest.mark.parametrize(("name", "words"), _cases())
def test_behaviour(name: str, words: str, request: pytest.FixtureRequest) -> None:
    kind = CLIENTS[name]
    secure = words in (behaviours_tls.VERIFIED, behaviours_tls.REFUSED)
    testbed = request.getfixturevalue("clients_tls_testbed" if secure else "clients_testbed")
    departure = kind.departs.get(words)
    with contextlib.closing(Wire(testbed)) as wire:
        place = Place.of(testbed, wire.bucket)
        bench = Bench(client=kind(place), place=place, wire=wire, testbed=testbed)
        try:
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


@pytest.mark.nightly
def test_the_table_is_that_of_this_run() -> None:
    TABLE.settle()
