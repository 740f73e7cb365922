"""The beginning and the end of a save in the safetensors layout: no marker while files are written, and one after."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.files_found import read_manifest
from torchbucket.dcp.huggingface.layout import index_bytes
from torchbucket.dcp.huggingface.names import FILE_NAME, is_shard
from torchbucket.dcp.manifest import MANIFEST_NAME, FileRecord, Manifest
from torchbucket.dcp.marker import end_manifest, publish, refuse_overwriting, take_away
from torchbucket.errors import CheckpointError, StoreError
from torchbucket.safetensors.places import INDEX_NAME
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.thread_pool import ThreadPool

__all__ = ["BegunSave", "begin_save"]

_DELETED_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class BegunSave:
    """A save whose files may be written: there is no checkpoint at the address. ``begin_save`` makes it.

    Args:
        directory: where it is to be.
        save_id: which save it is.
        before: the files that an earlier save of ours has left.
        manifest: the manifest that says that a save was begun.
    """

    directory: CheckpointDirectory
    save_id: str
    before: Collection[str]
    manifest: ObjectInfo

    def publish_shards(self, files: Mapping[str, FileRecord]) -> None:
        """Make the files of all ranks a checkpoint, by the manifest that names them.

        Plain loaders take a tensor to be in one file, so that an index would mislead them.

        Raises:
            CheckpointError: somebody else has begun to save to the same address meanwhile.
            StoreError: it could not be written; there is no checkpoint then.
        """
        manifest = Manifest(save_id=self.save_id, files=files)
        end_manifest(self.directory, MANIFEST_NAME, manifest, self.manifest, marker=None)
        self._remove_left(files)

    def publish_whole(self, files: Mapping[str, FileRecord], file_of: Mapping[str, str], size_bytes: int) -> None:
        """Make files of whole tensors a checkpoint, by their index.

        Args:
            files: what was written.
            file_of: the file that each tensor is in.
            size_bytes: of all tensors.

        Raises:
            CheckpointError: somebody else has saved to the same address meanwhile; neither is a checkpoint then.
            StoreError: it could not be written; there is no checkpoint then.
        """
        manifest = Manifest(save_id=self.save_id, files=files)
        end_manifest(self.directory, MANIFEST_NAME, manifest, self.manifest, marker=INDEX_NAME)
        publish(self.directory, INDEX_NAME, index_bytes(file_of, size_bytes, self.save_id))
        self._remove_left(files)

    def _remove_left(self, files: Collection[str]) -> None:
        """Remove what an earlier save of ours has left, as far as that is possible: PyTorch reads every file."""
        left = [name for name in self.before if name not in files and FILE_NAME.fullmatch(name)]

        def remove(name: str) -> None:
            with suppress(StoreError):
                self.directory.store.delete(self.directory.key(name))

        with ThreadPool(_DELETED_AT_ONCE, thread_name_prefix="torchbucket-dcp") as pool:
            for _ in pool.map(remove, left):
                pass


def begin_save(directory: CheckpointDirectory, save_id: str, *, overwrite: bool) -> BegunSave:
    """Take away what makes an earlier save a checkpoint, and leave a sign of whose the files are.

    Raises:
        CheckpointError: there is a checkpoint, and ``overwrite`` is False.
        StoreError: it could not be told, or not be taken away.
    """
    try:
        before = read_manifest(directory)
    except CheckpointError:  # It is damaged, and is written anew.
        before = None
    names: Collection[str] = () if before is None else before.files
    if names and all(map(is_shard, names)) and not overwrite:
        raise refuse_overwriting(directory)
    key = directory.key(MANIFEST_NAME)
    content = Manifest(save_id=save_id, files={}).content()

    def look_at_ours() -> None:
        directory.store.write(key, content)
        directory.store.head(key)

    take_away(directory, INDEX_NAME, overwrite=overwrite, look_at_ours=look_at_ours)
    return BegunSave(directory, save_id, names, directory.store.write(key, content))
