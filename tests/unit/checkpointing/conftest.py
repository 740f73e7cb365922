"""What the tests of the loop over checkpoints have in common."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def loop_uncollected() -> Iterator[None]:
    """Keep out of the garbage collector's way what the loop gives back to it: in its own process, that ends then."""
    gc.freeze()
    yield
    gc.freeze()
