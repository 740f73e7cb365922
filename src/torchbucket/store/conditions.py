"""What must hold of a key for a write to be published or an object to be removed."""

from __future__ import annotations

from dataclasses import dataclass

from torchbucket.errors import ConfigError, PreconditionFailedError
from torchbucket.store.arguments import check_version

__all__ = ["Condition", "condition_of", "unmet"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """The object must have ``version``; None means that there must be no object."""

    version: str | None

    @property
    def advice(self) -> str:
        """What to do where it does not hold."""
        if self.version is None:
            return "the object exists and if_absent was asked for; delete it or write without if_absent"
        return (
            f"the object does not have the version {self.version} that if_version asked for: it was overwritten or "
            "removed since; head it again and decide anew"
        )


def condition_of(if_absent: bool, if_version: str | None) -> Condition | None:
    """The condition that a call's arguments state, None for none.

    Raises:
        ConfigError: both are given, or ``if_version`` cannot be a version.
    """
    if if_version is None:
        return Condition(version=None) if if_absent else None
    if if_absent:
        raise ConfigError(
            f"if_absent and if_version exclude each other: the object is to be absent, or to have the version "
            f"{if_version!r}; give one"
        )
    check_version(if_version)
    return Condition(version=if_version)


def unmet(operation: str, uri: str, condition: Condition) -> PreconditionFailedError:
    """The error for a condition that does not hold."""
    return PreconditionFailedError(f"{operation} {uri}: {condition.advice}", operation=operation, uri=uri)
