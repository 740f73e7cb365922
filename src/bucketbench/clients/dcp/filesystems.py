"""PyTorch's own writers and readers: of any fsspec file system, and of files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from bucketbench.clients.protocol import Target
from bucketbench.errors import UsageError

__all__ = ["GCSFS", "S3FS", "Disk", "Files"]


class S3FS:
    """``FsspecWriter`` and ``FsspecReader`` by s3fs, every setting of s3fs at its default but for what is given.

    Args:
        thread_count: files that each rank writes at once; 1 is PyTorch's default.
        block_bytes: by how much files are read ahead, and the size of their parts; None for s3fs's default, 50 MiB.
    """

    def __init__(self, *, thread_count: int = 1, block_bytes: int | None = None) -> None:
        self._thread_count = thread_count
        self._block_bytes = block_bytes

    def storage(self, target: Target) -> _Fsspec:
        """The checkpoints below the target's prefix."""
        from bucketbench.clients.s3fs import make_filesystem, register_filesystem

        register_filesystem(target, block_bytes=self._block_bytes)
        return _Fsspec(target, make_filesystem(target), thread_count=self._thread_count)


class GCSFS:
    """``FsspecWriter`` and ``FsspecReader`` by gcsfs, every setting of gcsfs at its default but for what is given.

    Args:
        thread_count: files that each rank writes at once; 1 is PyTorch's default.
        cache_type: of the files that are read, such as ``readahead``; None for gcsfs's default.
    """

    def __init__(self, *, thread_count: int = 1, cache_type: str | None = None) -> None:
        self._thread_count = thread_count
        self._cache_type = cache_type

    def storage(self, target: Target) -> _Fsspec:
        """The checkpoints below the target's prefix."""
        from bucketbench.clients.gcsfs import make_filesystem, register_filesystem

        register_filesystem(target, cache_type=self._cache_type)
        return _Fsspec(target, make_filesystem(target), thread_count=self._thread_count)


class _Fsspec:
    def __init__(self, target: Target, filesystem: Any, *, thread_count: int) -> None:
        self._target = target
        self._filesystem = filesystem
        self._thread_count = thread_count

    def writer(self, name: str) -> Any:
        from torch.distributed.checkpoint._fsspec_filesystem import FsspecWriter

        return FsspecWriter(self._target.uri + name, thread_count=self._thread_count, sync_files=False)

    def reader(self, name: str) -> Any:
        from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader

        return FsspecReader(self._target.uri + name)

    def is_saved(self, name: str) -> bool:
        # Asked anew: what another process has saved may be missing in a listing of before.
        self._filesystem.invalidate_cache()
        return bool(self._filesystem.exists(f"{self._target.bucket}/{self._target.prefix}{name}/.metadata"))

    def remove(self, name: str) -> None:
        self._filesystem.rm(f"{self._target.bucket}/{self._target.prefix}{name}", recursive=True)

    def close(self) -> None:
        """The connections belong to fsspec's event loop, which ends with the process."""


class Disk:
    """``FileSystemWriter`` and ``FileSystemReader``: what it costs without a network. A reference, not a contestant.

    Args:
        thread_count: files that each rank writes at once; 1 is PyTorch's default.
    """

    reads_through = "disk"

    def __init__(self, *, thread_count: int = 1) -> None:
        self._thread_count = thread_count

    def storage(self, target: Target) -> Files:
        """The checkpoints in the target's local directory, which all ranks have in common.

        Raises:
            UsageError: the target has none.
        """
        if target.local_directory is None:
            raise UsageError("the client saves local files, and this target has no local directory")
        return Files(Path(target.local_directory), thread_count=self._thread_count)


class Files:
    """The checkpoints in a directory.

    Args:
        directory: which exists.
        thread_count: as of :class:`Disk`.
    """

    def __init__(self, directory: Path, *, thread_count: int) -> None:
        self._directory = directory
        self._thread_count = thread_count

    def writer(self, name: str) -> Any:
        from torch.distributed.checkpoint.filesystem import FileSystemWriter

        return FileSystemWriter(self._directory / name, thread_count=self._thread_count)

    def reader(self, name: str) -> Any:
        from torch.distributed.checkpoint.filesystem import FileSystemReader

        return FileSystemReader(self._directory / name)

    def is_saved(self, name: str) -> bool:
        return (self._directory / name / ".metadata").is_file()

    def remove(self, name: str) -> None:
        shutil.rmtree(self._directory / name)

    def close(self) -> None:
        """Nothing is open."""
