"""Finding and reading faults by name or file."""

from collections.abc import Mapping, Sequence

from buckettestbed.faults.plan import FaultSet
from buckettestbed.faults.rules import FaultError
from buckettestbed.presets import PresetError, read_preset

__all__ = ["Faults", "load_faults"]

Faults = str | Mapping[str, object] | Sequence[object]
"""Faults as a caller gives them: a preset's name (`none` for no faults), a YAML file's path, YAML in line
(`[{kind: reset, nth: 3}]`), a mapping of `seed` and `rules`, or a list of rules."""


def load_faults(value: Faults) -> FaultSet:
    """Returns the faults that are meant.

    Raises:
        FaultError: no such preset or file, or it does not hold valid rules; it says which rule is wrong and how.
    """
    if not isinstance(value, str):
        return FaultSet.from_value(value)
    try:
        values, origin = read_preset(value, group="faults", what="the faults")
    except PresetError as error:
        raise FaultError(str(error)) from error
    try:
        return FaultSet.from_value(values)
    except FaultError as error:
        raise FaultError(f"{origin}: {error}") from error
