"""Which files of a directory are a checkpoint of the safetensors layout, and what says so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.files_found import read_manifest
from torchbucket.dcp.huggingface.names import SUFFIX, is_shard
from torchbucket.dcp.manifest import Manifest
from torchbucket.errors import NotFoundError, PermissionDeniedError
from torchbucket.safetensors.places import INDEX_NAME, parse_index, whole_index

__all__ = ["FoundLayout", "find_layout", "index_bytes"]

_SAVE_ID: Final = "torchbucket_save_id"


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundLayout:
    """A checkpoint's files.

    Args:
        names: their names below the directory.
        file_of: the file that each tensor is in, of an index; None where there is none.
        save_id: which save they are of; None where that is not told.
        manifest: what was written of them; None where that is not known.
    """

    names: Sequence[str]
    file_of: Mapping[str, str] | None
    save_id: str | None
    manifest: Manifest | None


def find_layout(directory: CheckpointDirectory) -> FoundLayout:
    """Find the files of a checkpoint: those of its index, of the manifest of a complete save of shards, or, where
    neither is there, as of files that PyTorch has written, all safetensors files in the directory.

    Raises:
        NotFoundError: there is no complete checkpoint.
        CheckpointError: index or manifest are damaged.
    """
    manifest = read_manifest(directory)
    text = _index(directory)
    if text is not None:
        file_of, metadata = parse_index(directory.file_uri(INDEX_NAME), text)
        save_id = (metadata or {}).get(_SAVE_ID)
        if manifest is not None and manifest.save_id != save_id:
            manifest = None  # of another save than the index
        return FoundLayout(names=sorted(set(file_of.values())), file_of=file_of, save_id=save_id, manifest=manifest)
    if manifest is not None and manifest.files and not any(name.endswith(SUFFIX) for name in manifest.files):
        manifest = None  # of a checkpoint of the other layout, beside which a model lies
    if manifest is not None:
        if not manifest.files or not all(map(is_shard, manifest.files)):
            raise _not_found(directory, f"a save to it was begun and not completed: it has no {INDEX_NAME}")
        return FoundLayout(names=sorted(manifest.files), file_of=None, save_id=manifest.save_id, manifest=manifest)
    listed = (info.key.removeprefix(directory.prefix) for info in directory.store.list(directory.prefix))
    names = [name for name in listed if name.endswith(SUFFIX) and "/" not in name]
    if not names:
        raise _not_found(directory, f"it has neither {INDEX_NAME} nor any file that ends with {SUFFIX}")
    return FoundLayout(names=names, file_of=None, save_id=None, manifest=None)


def index_bytes(file_of: Mapping[str, str], size_bytes: int, save_id: str) -> bytes:
    """The content of an index.

    Args:
        file_of: the file that each tensor is in.
        size_bytes: of all tensors.
        save_id: which save they are of.
    """
    index = {"metadata": {"total_size": size_bytes, _SAVE_ID: save_id}, "weight_map": dict(file_of)}
    return (json.dumps(index, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _index(directory: CheckpointDirectory) -> bytes | None:
    """The index's bytes; of what is not there, S3 says to those who may not list that it may not be read."""
    try:
        return whole_index(directory.store, directory.key(INDEX_NAME))
    except (NotFoundError, PermissionDeniedError):
        return None


def _not_found(directory: CheckpointDirectory, reason: str) -> NotFoundError:
    return NotFoundError(
        f"{directory.uri} is no complete safetensors checkpoint: {reason}", operation="load", uri=directory.uri
    )
