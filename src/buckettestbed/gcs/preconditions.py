"""Preconditions on generation and metageneration, as both APIs of GCS have them.

*Source*: Cloud Storage documentation, request preconditions: 0 as the generation to match means that there is no live
object; a `Match` condition that does not hold answers 412, a `NotMatch` one 304, for writes as for reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from buckettestbed.model.objects import Check, StoredObject

__all__ = ["InvalidConditionError", "NotModifiedError", "Preconditions", "UnmetConditionError"]


class InvalidConditionError(ValueError):
    """A condition's value is no generation.

    Args:
        name: the parameter's or header's name.
        value: what it holds.
    """

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self.value = value
        super().__init__(f"{name} is {value!r}; expected an integer from 0 to 9223372036854775807")


class UnmetConditionError(Exception):
    """A `Match` condition does not hold: 412.

    Args:
        condition: its name, as the request has it.
    """

    def __init__(self, condition: str) -> None:
        self.condition = condition
        super().__init__(f"{condition} does not hold")


class NotModifiedError(Exception):
    """A `NotMatch` condition does not hold: 304."""


_LARGEST = (1 << 63) - 1


def _integer(values: Mapping[str, str], name: str) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal() and len(value) <= 19 and int(value) <= _LARGEST):
        raise InvalidConditionError(name, value)
    return int(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Preconditions:
    """What must hold of an object for a request to take effect; None for no condition.

    `names` are the four conditions' names in the request, for messages.
    """

    generation_match: int | None = None
    generation_not_match: int | None = None
    metageneration_match: int | None = None
    metageneration_not_match: int | None = None
    names: tuple[str, str, str, str] = ("", "", "", "")

    @classmethod
    def of(cls, values: Mapping[str, str], names: tuple[str, str, str, str]) -> "Preconditions":
        """Returns the conditions that parameters or headers state.

        Args:
            values: the request's parameters or headers.
            names: under which of them the four conditions are: generation match and not match, metageneration match and
                not match.

        Raises:
            InvalidConditionError: a value is not an integer.
        """
        generation_match, generation_not_match, match, not_match = (_integer(values, name) for name in names)
        return cls(
            generation_match=generation_match,
            generation_not_match=generation_not_match,
            metageneration_match=match,
            metageneration_not_match=not_match,
            names=names,
        )

    @property
    def stated(self) -> bool:
        """Whether there is any condition."""
        return not (
            self.generation_match is None
            and self.generation_not_match is None
            and self.metageneration_match is None
            and self.metageneration_not_match is None
        )

    def check_write(self, current: StoredObject | None) -> None:
        """Raises UnmetConditionError where the object as it is now, or its absence, breaks a `Match` condition,
        NotModifiedError where it breaks a `NotMatch` one."""
        generation = 0 if current is None else current.generation
        metageneration = 0 if current is None else current.metageneration
        if self.generation_match is not None and generation != self.generation_match:
            raise UnmetConditionError(self.names[0])
        if self.metageneration_match is not None and metageneration != self.metageneration_match:
            raise UnmetConditionError(self.names[2])
        if generation == self.generation_not_match or metageneration == self.metageneration_not_match:
            raise NotModifiedError

    def check_read(self, found: StoredObject) -> None:
        """Raises the same of an object that is read."""
        self.check_write(found)

    @property
    def check(self) -> Check | None:
        """The check for the model to make right before a change, or None where there is no condition."""
        return self.check_write if self.stated else None
