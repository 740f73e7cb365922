"""Removal of temporary objects that a killed process or a lost host has left."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from torchbucket.config import StoreConfig
from torchbucket.datasets.temporaries.names import TEMPORARIES_PREFIX, check_temporaries_prefix, made_at_s
from torchbucket.errors import ConfigError, PreconditionFailedError
from torchbucket.store import open_store
from torchbucket.store.protocol import ObjectInfo, Store
from torchbucket.uri import ObjectURI

__all__ = ["SWEPT_AFTER_S", "SweptTemporaries", "sweep_temporaries"]

# Source: ours; a temporary object lives for seconds, and hosts' clocks may differ by hours where time zones are wrong.
SWEPT_AFTER_S: Final = 24 * 3600.0

_AT_ONCE: Final = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class SweptTemporaries:
    """What a sweep found under a prefix.

    Args:
        removed: the temporary objects that were removed, or would be; in byte order of their keys.
        young: how many were left because they are not old enough.
        foreign: how many objects have names that this library does not give.
    """

    removed: tuple[ObjectInfo, ...]
    young: int
    foreign: int

    @property
    def removed_bytes(self) -> int:
        """The sum of their sizes."""
        return sum(info.size_bytes for info in self.removed)


def sweep_temporaries(
    uri: str, *, older_than_s: float = SWEPT_AFTER_S, dry_run: bool = False, config: StoreConfig | None = None
) -> SweptTemporaries:
    """Remove the temporary objects of ``fetch=Compose(…)`` that nobody removed.

    An object is removed only if its whole name is one that this library gives, and both the time in the name and, where
    the store tells it, the time of its last change are older than asked for; and only in the version that was listed.

    Args:
        uri: the bucket, such as ``gs://bucket``, for the default prefix; or with the prefix that ``Compose`` was given,
            such as ``gs://bucket/scratch/``.
        older_than_s: the least age in seconds. Iterations that live longer than that lose what they have just composed,
            and read it again.
        dry_run: remove nothing, and return what would be removed.
        config: how to reach the bucket; None means ``StoreConfig()``.

    Raises:
        ConfigError: a wrong address, prefix or age.
        StoreError: the listing failed, or a removal did; those before it are removed.
    """
    if isinstance(older_than_s, bool) or not math.isfinite(older_than_s) or older_than_s < 0:
        raise ConfigError(f"older_than_s must be seconds from 0; got {older_than_s!r}")
    location = ObjectURI.parse(uri)
    prefix = location.key or TEMPORARIES_PREFIX
    check_temporaries_prefix(prefix)
    store = open_store(location, config)
    before_s = time.time() - older_than_s
    old: list[ObjectInfo] = []
    young = foreign = 0
    for info in store.list(prefix):
        made_s = made_at_s(info.key, prefix)
        if made_s is None:
            foreign += 1
        elif max(made_s, info.last_modified_s or made_s) > before_s:
            young += 1
        else:
            old.append(info)
    removed = old if dry_run else list(_removed(store, old))
    return SweptTemporaries(removed=tuple(removed), young=young, foreign=foreign)


def _removed(store: Store, infos: list[ObjectInfo]) -> Iterator[ObjectInfo]:
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="torchbucket-sweep") as pool:
        try:
            done = pool.map(lambda info: _remove(store, info), infos)
            yield from (info for info, was_removed in zip(infos, done, strict=True) if was_removed)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _remove(store: Store, info: ObjectInfo) -> bool:
    try:
        store.delete(info.key, if_version=info.version)
    except PreconditionFailedError:
        return False  # somebody has written it anew
    return True
