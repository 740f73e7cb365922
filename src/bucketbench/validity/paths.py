"""The rule of the path: whether a client did what it is named for."""

from __future__ import annotations

from typing import Final

from bucketbench.records import State
from bucketbench.validity.evidence import NO_SERVER, Evidence, NotJudgedError

__all__ = ["other_path"]

_COMPOSE: Final = "compose"  # what the names of the operations that join objects begin with


def other_path(evidence: Evidence) -> tuple[State, str] | None:
    """Invalid where the client took another path than the one that is compared, by its own word or the server's.

    Its own word is the detail ``fallback``; a client that is to join objects before it reads them (``expects``) has to
    have asked the server to.
    """
    told = evidence.details.get("fallback")
    if told:
        return State.INVALID, f"the client fell back to another path: {told}"
    if evidence.details.get("expects") != "compose":
        return None
    if evidence.server is None or evidence.server.requests_by_name is None:
        raise NotJudgedError(NO_SERVER)
    if any(count for name, count in evidence.server.requests_by_name.items() if name.startswith(_COMPOSE)):
        return None
    return State.INVALID, (
        "the client is to compose small objects and asked for no composition (limit 1 request): it read each by itself"
    )
