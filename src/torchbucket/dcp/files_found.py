"""Which of a checkpoint's files are there, before any of them is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from torch.distributed.checkpoint.metadata import Metadata

from torchbucket.checkpoint.read_back import SUM, sum_of_object
from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.manifest import MANIFEST_NAME, Manifest
from torchbucket.dcp.metadata_file import METADATA_NAME, metadata_from
from torchbucket.errors import CheckpointError, NotFoundError, PermissionDeniedError
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.thread_pool import ThreadPool

__all__ = ["FoundFile", "checked_files", "read_manifest", "read_metadata"]

_HEADS_AT_ONCE: Final = 32
_SUMS_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that is there.

    Args:
        size_bytes: its length.
        version: what names its content; None where the store does not tell without being asked for each.
    """

    size_bytes: int
    version: str | None


def read_manifest(directory: CheckpointDirectory, name: str = MANIFEST_NAME) -> Manifest | None:
    """The checkpoint's manifest; None where it has none, as those that others wrote.

    To those who may not list, S3 says of what is not there that it may not be read.
    """
    try:
        content = directory.store.read(directory.key(name)).data
    except (NotFoundError, PermissionDeniedError):
        return None
    return Manifest.parse(content, directory.file_uri(name))


def read_metadata(directory: CheckpointDirectory, name: str = METADATA_NAME) -> Metadata:
    """The checkpoint's metadata; ``NotFoundError`` where it is not complete."""
    return metadata_from(directory.store.read(directory.key(name)).data, directory.file_uri(name))


def checked_files(
    directory: CheckpointDirectory, needed: Mapping[str, int], manifest: Manifest | None
) -> dict[str, FoundFile]:
    """Find the files that are to be read, and make sure that each is as it was written.

    A file whose version is another one than was written is read and compared; the others have their length alone
    compared.

    Args:
        directory: the checkpoint.
        needed: the end, in bytes, of what is to be read of each file, by its path below the checkpoint.
        manifest: what was written; None where only the ends are known.

    Raises:
        CheckpointError: any is missing, altered or of another length; all are named.
        StoreError: it could not be told.
    """
    listed = _find(directory, needed)
    found = {name: FoundFile(info.size_bytes, info.version) for name, info in listed.items()}
    sizes = {name: file.size_bytes for name, file in found.items()}
    wrong = manifest.differences(sizes, needed) if manifest is not None else []
    for name in sorted(needed):
        if name not in sizes:
            if manifest is None:
                wrong.append(f"{name} is missing")
        elif sizes[name] < needed[name]:
            wrong.append(f"{name} has {sizes[name]:,} bytes, and {needed[name]:,} are named by the metadata")
    if manifest is not None and not wrong:
        wrong = _altered(directory, listed, manifest)
    if wrong:
        raise CheckpointError(
            f"{directory.uri}: the checkpoint is not whole: {'; '.join(dict.fromkeys(wrong))}. Nothing was read; load "
            "an earlier one",
            uri=directory.uri,
        )
    return found


def _altered(directory: CheckpointDirectory, listed: Mapping[str, ObjectInfo], manifest: Manifest) -> list[str]:
    """What is wrong with files that are not those that were written, but copies of them, or others in their place."""

    def differs(name: str) -> bool:
        record, info = manifest.files.get(name), listed[name]
        if record is None or record.crc64nvme is None or None in (record.version, info.version):
            return False
        if record.version == info.version:
            return False
        return SUM.text(sum_of_object(directory.store, info)) != record.crc64nvme

    with ThreadPool(_SUMS_AT_ONCE, thread_name_prefix="torchbucket-dcp") as pool:
        names = sorted(listed)
        return [
            f"{name} has other bytes than were written"
            for name, other in zip(names, pool.map(differs, names), strict=True)
            if other
        ]


def _find(directory: CheckpointDirectory, needed: Iterable[str]) -> dict[str, ObjectInfo]:
    keys = {directory.key(name): name for name in needed}
    try:
        listed: Iterable[ObjectInfo] = list(directory.store.list(directory.prefix))
    except PermissionDeniedError:  # The right to read is enough: it takes a request for each file.
        listed = _heads(directory, keys)
    return {keys[info.key]: info for info in listed if info.key in keys}


def _heads(directory: CheckpointDirectory, keys: Iterable[str]) -> list[ObjectInfo]:
    def head(key: str) -> ObjectInfo | None:
        try:
            return directory.store.head(key)
        except NotFoundError:
            return None

    with ThreadPool(_HEADS_AT_ONCE, thread_name_prefix="torchbucket-dcp") as pool:
        return [info for info in pool.map(head, keys) if info is not None]
