"""What a sharded checkpoint consists of in a bucket beside the files of ``torch.distributed.checkpoint``."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch

from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.found_checkpoints import FoundCheckpoint
from torchbucket.dcp.metadata_file import METADATA_NAME
from torchbucket.errors import CheckpointError, NotFoundError, PermissionDeniedError

__all__ = ["REST_NAME", "found_at", "is_there", "pickled_rest", "rest_of"]

REST_NAME: Final = "meta.pt"
"""What is neither model nor optimizer. *Source:* Lightning's own strategies, whose directories these are."""


def pickled_rest(rest: Mapping[str, Any]) -> bytes:
    """The content of that file."""
    file = io.BytesIO()
    torch.save(rest, file)
    return file.getvalue()


def rest_of(directory: CheckpointDirectory) -> bytes | None:
    """The content of that file of a sharded checkpoint; None where there is no sharded one.

    Raises:
        CheckpointError: there is one that is not complete.
    """
    if is_there(directory, METADATA_NAME):
        return bytes(directory.store.read(directory.key(REST_NAME)).data)
    try:
        found = FoundCheckpoint.at(directory)
    except PermissionDeniedError:
        return None
    if found.files:
        raise CheckpointError(
            f"{directory.uri}: the checkpoint is not complete: {found.why_not()}; load an earlier one, which "
            "torchbucket.dcp.latest finds",
            uri=directory.uri,
        )
    return None


def is_there(directory: CheckpointDirectory, name: str | None) -> bool:
    """Whether a file of a checkpoint is there, or, without a name, an object in the directory's place."""
    try:
        directory.store.head(directory.location.key if name is None else directory.key(name))
    except (NotFoundError, PermissionDeniedError):  # the latter is what S3 says of both to those who may not list
        return False
    return True


def found_at(directory: CheckpointDirectory) -> FoundCheckpoint | None:
    """What there is of a sharded checkpoint; None where there can be none, or nobody may look."""
    location = directory.location
    if location.scheme == "file" and Path(f"/{location.key}").is_symlink():
        return None  # `ModelCheckpoint` has made it, and what it leads to stays
    try:
        return FoundCheckpoint.at(directory)
    except PermissionDeniedError:
        return None
