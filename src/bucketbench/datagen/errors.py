"""What can go wrong when a data set is made, in words for the user."""

from __future__ import annotations

from bucketbench.errors import UsageError

__all__ = ["DatagenError"]


class DatagenError(UsageError):
    """A data set cannot be made or read as asked; the message says why and what to change."""
