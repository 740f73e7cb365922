"""What a client says of how it reads, as details of a job: the rules of a valid measurement need it."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["told_by"]

_STATEMENTS: Final = ("reads_through", "expects", "fallback")


def told_by(client: Any) -> dict[str, str]:
    """The statements of a client, those that it makes.

    Args:
        client: it, or what it has opened. ``reads_through`` is ``disk`` for local files and ``mount`` for a mounted
            bucket; ``expects`` is ``compose`` where it is to have the server join objects; ``fallback`` says why it
            takes another path than the one that it is named for, None where it does not.
    """
    told = {name: getattr(client, name, None) for name in _STATEMENTS}
    return {name: str(value) for name, value in told.items() if value}
