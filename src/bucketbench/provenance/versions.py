"""Versions of what was measured, by import name."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from importlib import metadata

__all__ = ["versions_of"]


def versions_of(import_names: Iterable[str]) -> dict[str, str]:
    """The installed version of each package, ``python`` and ``torchbucket`` included.

    Args:
        import_names: names as they are imported, such as ``s3torchconnector``, ``PIL`` or ``google.cloud.storage``.

    Returns:
        A mapping of name to version; a package without metadata, such as a user's own file, reads ``unknown``.
    """
    names = sorted({_distributed_name(name) for name in import_names} | {"torchbucket"})
    versions = {"python": platform.python_version()}
    distributions: Mapping[str, list[str]] | None = None
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            # Reading the files of every distribution takes a while, so only where the names differ (PIL, pillow).
            distributions = metadata.packages_distributions() if distributions is None else distributions
            found = distributions.get(name)
            versions[name] = metadata.version(found[0]) if found else "unknown"
    return versions


def _distributed_name(import_name: str) -> str:
    """What has a version of its own: a package, or within a namespace of many the distribution of the same name."""
    named = import_name.replace(".", "-")
    try:
        metadata.version(named)
    except metadata.PackageNotFoundError:
        return import_name.split(".")[0]
    return named
