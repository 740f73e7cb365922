"""Preconditions on generations in the headers and parameters of the XML API."""

from buckettestbed.gcs.preconditions import InvalidConditionError, Preconditions
from buckettestbed.model.objects import StoredObject
from buckettestbed.rest.call import Call
from buckettestbed.rest.errors import RestError

__all__ = ["check_generation", "conditions", "found_object"]


def conditions(call: Call, *, of_source: bool = False) -> Preconditions:
    """Returns the conditions that a request's headers state; raises InvalidConditionError.

    Args:
        call: the request.
        of_source: those on the object that is copied.
    """
    prefix = "x-goog-copy-source-if-" if of_source else "x-goog-if-"
    return Preconditions.of(
        call.headers,
        (
            prefix + "generation-match",
            prefix + "generation-not-match",
            prefix + "metageneration-match",
            prefix + "metageneration-not-match",
        ),
    )


def check_generation(name: str, value: str | None, found: StoredObject) -> None:
    """Raises NoSuchKey where another generation is asked for than the live one: the testbed keeps no others.

    Args:
        name: of the parameter or header.
        value: what it says, or None.
        found: the live object.

    Raises:
        InvalidConditionError: the value is no integer.
    """
    if value is None:
        return
    if not (value.isascii() and value.isdecimal()):
        raise InvalidConditionError(name, value)
    if value != str(found.generation):
        raise RestError("NoSuchKey")


def found_object(call: Call) -> StoredObject:
    """Returns the object that a request is about, in the generation it asks for; raises NoSuchKey."""
    found = call.found()
    check_generation("generation", call.query.get("generation"), found)
    return found
