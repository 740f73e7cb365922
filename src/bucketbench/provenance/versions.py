"""Versions of what was measured, and of all that it stands on."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping
from importlib import metadata

from packaging.requirements import Requirement

__all__ = ["versions_of"]


def versions_of(import_names: Iterable[str]) -> dict[str, str]:
    """The installed version of each package and of what it needs, ``python`` and ``torchbucket`` included.

    Args:
        import_names: names as they are imported, such as ``s3torchconnector``, ``PIL`` or ``google.cloud.storage``.

    Returns:
        A mapping of name to version; a package without metadata, such as a user's own file, reads ``unknown``. Where
        pycurl is among them, ``libcurl`` is too.
    """
    asked = sorted({_distributed_name(name) for name in import_names} | {"torchbucket"})
    versions = dict.fromkeys(asked, "unknown")
    waiting = list(asked)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        distribution = _distribution(name, by_import=name in asked)
        if distribution is not None:  # what was asked for may be a file, what is needed may not be needed here
            versions[name] = distribution.version
            waiting += _needed_by(distribution)
    if "pycurl" in versions:
        versions["libcurl"] = _libcurl()
    return {"python": platform.python_version()} | dict(sorted(versions.items()))


def _distribution(name: str, *, by_import: bool) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        # Reading the files of every distribution takes a while, so only where the names differ (PIL, pillow).
        found: Mapping[str, list[str]] = metadata.packages_distributions() if by_import else {}
        return metadata.distribution(found[name][0]) if name in found else None


def _needed_by(distribution: metadata.Distribution) -> list[str]:
    """What a distribution needs here, without its extras, by names that differ in nothing but what they are."""
    needed = map(Requirement, distribution.requires or ())
    return [
        re.sub(r"[-_.]+", "-", one.name).lower()
        for one in needed
        if one.marker is None or one.marker.evaluate({"extra": ""})
    ]


def _libcurl() -> str:
    import pycurl

    version: str = pycurl.version_info()[1]
    return version


def _distributed_name(import_name: str) -> str:
    """What has a version of its own: a package, or within a namespace of many the distribution of the same name."""
    named = import_name.replace(".", "-")
    try:
        metadata.version(named)
    except metadata.PackageNotFoundError:
        return import_name.split(".")[0]
    return named
