"""Removal of temporary objects and open uploads that a killed process or a lost host has left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError, PreconditionFailedError
from torchbucket.public import public
from torchbucket.store import open_store
from torchbucket.store.protocol import ObjectInfo, OpenUpload, Store
from torchbucket.store.temporary_names import made_at_s
from torchbucket.store.thread_pool import ThreadPool
from torchbucket.uri import Address, ObjectURI

__all__ = ["SweptTemporaries", "sweep_temporaries"]

# Source: ours; a temporary object lives for seconds, and hosts' clocks may differ by hours where time zones are wrong.
_SWEPT_AFTER_S: Final = 24 * 3600.0

_AT_ONCE: Final = 16

T = TypeVar("T")


@public
@dataclass(frozen=True, kw_only=True, slots=True)
class SweptTemporaries:
    """What a sweep found under a prefix.

    Args:
        removed: the temporary objects that were removed, or would be; in byte order of their keys.
        aborted: the open uploads that were aborted, or would be.
        young: how many of both were left because they are not old enough.
    """

    removed: tuple[ObjectInfo, ...]
    aborted: tuple[OpenUpload, ...]
    young: int

    @property
    def removed_bytes(self) -> int:
        """The sum of the objects' sizes."""
        return sum(info.size_bytes for info in self.removed)


@public
def sweep_temporaries(
    uri: Address,
    *,
    older_than_s: float = _SWEPT_AFTER_S,
    uploads: bool = False,
    dry_run: bool = False,
    config: StoreConfig | None = None,
) -> SweptTemporaries:
    """Remove what killed processes have left: temporary objects, and uploads in parts that nobody will complete.

    An object is removed only if the end of its name is one that this library gives, and both the time in the name and,
    where the store tells it, the time of its last change are older than asked for; and only in the version that was
    listed. An upload is aborted if its name tells the same.

    Args:
        uri: the bucket, such as ``gs://bucket``, all of which is listed then; or with the prefix to look under, such as
            ``gs://bucket/torchbucket-temporaries/``, where ``fetch=Compose(…)`` has its objects.
        older_than_s: the least age in seconds. Iterations and writes that live longer than that lose what they have
            just made; iterations read it again, and writes fail.
        uploads: abort every other upload that is old enough as well, whoever began it: neither provider tells whose an
            upload is, and one may stay open where a process was killed, or where the answer that named it was lost.
        dry_run: remove nothing, and return what would be removed.
        config: how to reach the bucket; None means ``StoreConfig()``.

    Raises:
        ConfigError: a wrong address or age.
        StoreError: the listing failed, or a removal did; those before it are removed.
    """
    number = isinstance(older_than_s, int | float) and not isinstance(older_than_s, bool)
    if not number or not 0 <= older_than_s < math.inf:
        raise ConfigError(f"older_than_s must be seconds from 0; got {older_than_s!r}")
    location = ObjectURI.parse(uri)
    store = open_store(location, config)
    before_s = time.time() - older_than_s
    old: list[ObjectInfo] = []
    open_uploads: list[OpenUpload] = []
    young = 0
    for info in store.list(location.key):
        made_s = made_at_s(info.key)
        if made_s is None:
            continue
        if max(made_s, info.last_modified_s or made_s) > before_s:
            young += 1
        else:
            old.append(info)
    for upload in store.list_uploads(location.key):
        # On Cloud Storage a temporary object is made under its own key; a file has such a name while it is written.
        made_s = made_at_s(upload.key) or made_at_s(upload.upload_id) or (upload.started_s if uploads else None)
        if made_s is None:
            continue
        if max(made_s, upload.started_s or made_s) > before_s:
            young += 1
        else:
            open_uploads.append(upload)
    if not dry_run:
        old = list(_done(lambda info: _remove(store, info), old))
        open_uploads = list(_done(lambda upload: _abort(store, upload), open_uploads))
    return SweptTemporaries(removed=tuple(old), aborted=tuple(open_uploads), young=young)


def _done(work: Callable[[T], bool], items: Sequence[T]) -> Iterator[T]:
    with ThreadPool(_AT_ONCE, thread_name_prefix="torchbucket-sweep") as pool:
        try:
            yield from (item for item, was_done in zip(items, pool.map(work, items), strict=True) if was_done)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _remove(store: Store, info: ObjectInfo) -> bool:
    try:
        store.delete(info.key, if_version=info.version)
    except PreconditionFailedError:
        return False  # somebody has written it anew
    return True


def _abort(store: Store, upload: OpenUpload) -> bool:
    store.abort_upload(upload)
    return True
