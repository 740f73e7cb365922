"""Writers that take the end of a block for its success, even where an exception ends it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from client_shape import Bench, Departure

__all__ = ["BrokenError", "broken_pieces", "eventually_named", "published_truncated"]

_LIMIT_S = 60.0


class BrokenError(Exception):
    """What a caller's block fails with."""


def broken_pieces() -> Iterator[bytes]:
    """Yields a piece, then fails."""
    yield b"a piece"
    raise BrokenError


def eventually_named(bench: Bench) -> list[str]:
    """Returns the bucket's names as soon as there are some."""
    limit_s = time.monotonic() + _LIMIT_S
    while not (names := bench.wire.names()):
        assert time.monotonic() < limit_s, "nothing was published"
        time.sleep(0.01)
    return names


def published_truncated(client: str) -> Departure:
    """Returns the departure of a client whose writer publishes what came before the failure."""

    def shown(bench: Bench) -> None:
        with pytest.raises(BrokenError):
            bench.client.stream("folder/broken", broken_pieces())
        assert eventually_named(bench) == ["folder/broken"]
        assert bench.wire.get("folder/broken") == b"a piece"

    return Departure(
        says=f"{client}'s writer publishes a truncated object where an exception ends its block.", shown=shown
    )
