"""What the compose strategy needs of a data set, checked when that is constructed."""

from __future__ import annotations

from typing import Final

from torchbucket.datasets.source import ObjectSource
from torchbucket.errors import ConfigError, UnsupportedError

__all__ = ["check_compose"]

_SCHEMES: Final = ("gs", "memory")


def check_compose(source: ObjectSource) -> None:
    """Refuse a data set whose objects cannot be composed.

    Raises:
        UnsupportedError: the store has no request that joins objects.
        ConfigError: sizes and versions are not known.
    """
    root = source.root.root
    if source.root.scheme not in _SCHEMES:
        raise UnsupportedError(
            f"fetch=Compose(…): {root} joins no objects into one; only Cloud Storage does. Use fetch='whole', which "
            "reads many objects at once",
            operation="compose",
            uri=root,
        )
    if not len(source.listing):
        return
    if source.listing.versions is None or source.listing.size_bytes(0) is None:
        raise ConfigError(
            "fetch=Compose(…) takes a joined object apart by its parts' sizes, and pins them to their versions, so it "
            "needs both: use from_prefix, or a manifest with versions; or fetch='whole'"
        )
