"""How many examples a property is tried with, where the profile's number does not fit."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples"]

_NIGHTLY_FACTOR = 10


def examples(on_each_commit: int) -> int:
    """Returns the number for `settings(max_examples=…)`: ten times as many at night, whose seeds are random."""
    return on_each_commit * (_NIGHTLY_FACTOR if settings.get_current_profile_name() == "nightly" else 1)
