"""The checkpoints of a run: which are there, which is the newest complete one, and removing what is not needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from torchbucket.checkpoint.read_back import SUM, sum_of_object
from torchbucket.config import StoreConfig
from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.found_checkpoints import FoundCheckpoint, find_checkpoints
from torchbucket.errors import CheckpointError, ConfigError
from torchbucket.public import public_in
from torchbucket.uri import Address

__all__ = ["StoredCheckpoint", "checkpoints", "is_complete", "latest", "prune", "verify"]

_GRACE_S: Final = 3600.0


@public_in("torchbucket.dcp")
@dataclass(frozen=True, kw_only=True)
class StoredCheckpoint:
    """A checkpoint, or what there is of one.

    Args:
        name: its directory's name.
        uri: its address.
        step: the last number in the name, but for a version at its end (``step=100-v1``); None where it has none.
        is_complete: whether its metadata or index is there, and every file that the manifest names, as long as it was
            written.
        why_not: what is missing, where it is not complete.
        is_ours: whether it was written by ``BucketStorageWriter`` or ``BucketHuggingFaceWriter``: no other is removed.
        size_bytes: of all its files.
        files: how many.
        modified_s: when the last of them was written, in seconds since 1970 (UTC); None where the store does not tell.
    """

    name: str
    uri: str
    step: int | None
    is_complete: bool
    why_not: str
    is_ours: bool
    size_bytes: int
    files: int
    modified_s: float | None


@public_in("torchbucket.dcp")
def checkpoints(uri: Address, *, config: StoreConfig | None = None) -> list[StoredCheckpoint]:
    """List the checkpoints of a run, the oldest first: by the numbers in their names, and by time where they have none.

    Args:
        uri: the directory that the checkpoints are in, such as ``s3://bucket/run-1``.
        config: how to reach the bucket; None means ``StoreConfig()``.

    Raises:
        ConfigError: a wrong address or setting.
        StoreError: it could not be told; never an empty list instead.
    """
    return [_described(found) for found in find_checkpoints(uri, config)]


@public_in("torchbucket.dcp")
def latest(uri: Address, *, config: StoreConfig | None = None) -> str | None:
    """The address of a run's newest complete checkpoint; None where it has none.

    With several ranks, ask on one and tell the others, so that all load the same.

    Args:
        uri: the directory that the checkpoints are in.
        config: how to reach the bucket; None means ``StoreConfig()``.

    Raises:
        StoreError: it could not be told.
    """
    for found in reversed(find_checkpoints(uri, config)):
        if not found.why_not():
            return found.directory.uri
    return None


@public_in("torchbucket.dcp")
def is_complete(uri: Address, *, config: StoreConfig | None = None) -> bool:
    """Whether a checkpoint can be loaded: its metadata is there, and all files are as long as they were written.

    Args:
        uri: the checkpoint's address, such as ``s3://bucket/run-1/step-100``.
        config: how to reach the bucket; None means ``StoreConfig()``.
    """
    directory = CheckpointDirectory.at(uri, config)
    return not FoundCheckpoint.at(directory).why_not()


@public_in("torchbucket.dcp")
def verify(uri: Address, *, config: StoreConfig | None = None) -> list[str]:
    """Read every file of a checkpoint and compare it with the checksum that the manifest has of it.

    Args:
        uri: the checkpoint's address.
        config: how to reach the bucket; None means ``StoreConfig()``.

    Returns:
        What is wrong, a line for each file; nothing where all is as it was written.

    Raises:
        CheckpointError: there is no manifest to compare with, or no metadata.
    """
    directory = CheckpointDirectory.at(uri, config)
    found = FoundCheckpoint.at(directory)
    wrong = [found.why_not()] if found.why_not() else []
    manifests = found.current or list(found.manifests().values())
    if not manifests or found.is_another_s:
        raise CheckpointError(
            f"{directory.uri}: there is no manifest to compare with: it was written by another program, or is none",
            uri=directory.uri,
        )
    for manifest in manifests:
        for name, record in sorted(manifest.files.items()):
            info = found.files.get(name)
            if info is None or info.size_bytes != record.size_bytes:
                continue  # told already
            if record.crc64nvme is None:
                wrong.append(f"{name} cannot be compared, since nobody knows the checksum of what the server copied")
            elif SUM.text(sum_of_object(directory.store, info)) != record.crc64nvme:
                wrong.append(f"{name} has other bytes than were written")
    return wrong


@public_in("torchbucket.dcp")
def prune(
    uri: Address,
    keep: int,
    *,
    protect: Iterable[str] = (),
    grace_s: float = _GRACE_S,
    dry_run: bool = False,
    config: StoreConfig | None = None,
) -> list[StoredCheckpoint]:
    """Remove all but the newest complete checkpoints of a run, and what is left of saves that never ended.

    Only what our writers have written is removed, file by file: what others put beside it stays. Where
    others have numbers, those without one, such as ``best``, stay. An incomplete one stays while it may still be
    written: where it is newer than the newest complete one, or was written to within ``grace_s``. The metadata goes
    first, so that what is left of an interrupted removal is never loaded.

    Args:
        uri: the directory that the checkpoints are in.
        keep: how many complete ones stay, at least 1.
        protect: names of checkpoints that stay whatever their age, such as the one that a run was resumed from.
        grace_s: how long ago the last file of an incomplete one must have been written, in seconds.
        dry_run: remove nothing, and only tell what would be.
        config: how to reach the bucket; None means ``StoreConfig()``.

    Returns:
        What was removed.

    Raises:
        ConfigError: ``keep`` is below 1, or ``protect`` is a text.
    """
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
        raise ConfigError(f"keep: how many complete checkpoints stay, at least 1; got {keep!r}")
    if isinstance(protect, str):
        raise ConfigError(f"protect: a list of names, such as [{protect!r}]; got the text {protect!r}")
    kept = {name.rstrip("/").rpartition("/")[2] for name in protect}
    all_found = find_checkpoints(uri, config)
    complete = [found for found in all_found if not found.why_not()]
    if not complete:
        return []
    newest = all_found.index(complete[-1])
    kept.update(found.name for found in complete[-keep:])
    removed = []
    for position, found in enumerate(all_found):
        if found.name in kept or not found.is_ours or (found.step is None and complete[-1].step is not None):
            continue
        if found.why_not() and (position > newest or found.age_s() < grace_s):
            continue
        removed.append(_described(found))
        if not dry_run:
            found.remove()
    return removed


def _described(found: FoundCheckpoint) -> StoredCheckpoint:
    return StoredCheckpoint(
        name=found.name,
        uri=found.directory.uri,
        step=found.step,
        is_complete=not found.why_not(),
        why_not=found.why_not(),
        is_ours=found.is_ours,
        size_bytes=sum(info.size_bytes for info in found.files.values()),
        files=len(found.files),
        modified_s=found.modified_s,
    )
