"""What makes files a checkpoint: one object, taken away before any file is written, and published last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.manifest import Manifest
from torchbucket.errors import (
    CheckpointError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
)
from torchbucket.store.protocol import ObjectInfo

__all__ = ["end_manifest", "publish", "refuse_overwriting", "take_away"]


def take_away(
    directory: CheckpointDirectory, name: str, *, overwrite: bool, look_at_ours: Callable[[], object]
) -> bool:
    """Remove what makes an earlier save a checkpoint; return whether there was any.

    Args:
        directory: the checkpoint.
        name: the marker's name.
        overwrite: False refuses to remove one.
        look_at_ours: looks at an object of ours in the directory, and raises where we may not read.

    Raises:
        CheckpointError: there is one, and it may not be removed by ``overwrite``.
        StoreError: it could not be told, or not be removed.
    """
    store, key = directory.store, directory.key(name)
    try:
        old: ObjectInfo = store.head(key)
    except NotFoundError:
        return False
    except PermissionDeniedError:
        # S3 says so of what is not there to those who may not list. What is there, we can see if we may read.
        look_at_ours()
        return False
    if not overwrite:
        raise refuse_overwriting(directory)
    store.delete(key, if_version=old.version)
    return True


def end_manifest(
    directory: CheckpointDirectory, name: str, manifest: Manifest, begun: ObjectInfo, *, marker: str | None
) -> None:
    """Write what a save has written of which file, on the condition that nobody else has begun to save since.

    Where somebody has, none of the saves becomes a checkpoint: what marks one is taken away, and the manifest is that
    of no save, which the other finds here in turn if it has not ended yet.

    Args:
        directory: the checkpoint.
        name: the manifest's name.
        manifest: it.
        begun: the manifest that the save has begun with.
        marker: what makes the files a checkpoint; None where the manifest does.

    Raises:
        CheckpointError: somebody else has begun to save to the same address meanwhile.
        StoreError: it could not be written; there is no checkpoint then.
    """
    store, key = directory.store, directory.key(name)
    try:
        store.write(key, manifest.content(), if_version=begun.version)
    except PreconditionFailedError as error:
        with suppress(StoreError):
            store.write(key, Manifest(save_id=manifest.save_id, files={}).content())
        if marker is not None:
            with suppress(StoreError):
                store.delete(directory.key(marker))
        raise _mixed(directory) from error


def publish(directory: CheckpointDirectory, name: str, content: bytes) -> None:
    """Publish what makes the files a checkpoint, by one request on the condition that it is not there.

    Raises:
        CheckpointError: somebody else has saved to the same address meanwhile; neither is a checkpoint then.
        StoreError: it could not be written; there is no checkpoint then.
    """
    store, key = directory.store, directory.key(name)
    try:
        store.write(key, content, if_absent=True)
    except PreconditionFailedError as error:
        with suppress(StoreError):  # where it may not be deleted, it can only be told
            store.delete(key)
        raise _mixed(directory) from error


def refuse_overwriting(directory: CheckpointDirectory) -> CheckpointError:
    """The error for a save where a checkpoint is that is to stay."""
    return CheckpointError(
        f"{directory.uri}: a checkpoint is there already, and overwrite=False; save to another address",
        uri=directory.uri,
    )


def _mixed(directory: CheckpointDirectory) -> CheckpointError:
    return CheckpointError(
        f"{directory.uri}: another save to the same address was under way at the same time as this one, and their "
        "files are mixed, so that neither is kept; save again, each to an address of its own",
        uri=directory.uri,
    )
