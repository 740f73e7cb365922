"""Lightning's own ``ModelParallelStrategy``, which writes files: on a disk, and below a mounted bucket."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bucketbench.clients.protocol import Target
from bucketbench.errors import UsageError

__all__ = ["Disk", "Mount"]


class Disk:
    """To the target's local directory, which all ranks have in common. A reference, not a contestant."""

    reads_through = "disk"

    def strategy(self, target: Target, world_size: int) -> Any:
        """The strategy."""
        from lightning.pytorch.strategies import ModelParallelStrategy

        del target
        return ModelParallelStrategy(data_parallel_size=world_size, tensor_parallel_size=1)

    def root(self, target: Target) -> str:
        """The local directory.

        Raises:
            UsageError: the target has none.
        """
        if target.local_directory is None:
            raise UsageError("the client saves local files, and this target has no local directory")
        return f"{target.local_directory}/"

    def is_saved(self, target: Target, path: str) -> bool:
        """Whether what Lightning writes last is there."""
        del target
        return (Path(path) / "meta.pt").is_file()

    def close(self) -> None:
        """Nothing is open."""


class Mount(Disk):
    """Below a directory where the target's bucket is mounted, on every host of the ranks: gcsfuse, mountpoint, rclone.

    Args:
        directory: where; it has to be said, since what bucketbench mounts by itself is for reading only.
    """

    reads_through = "mount"

    def __init__(self, *, directory: str | None = None) -> None:
        self._directory = None if directory is None else Path(directory).expanduser().absolute()

    def root(self, target: Target) -> str:
        """The target's prefix in the directory.

        Raises:
            UsageError: there is none, nothing is mounted there, or nothing can be written.
        """
        if self._directory is None:
            raise UsageError(
                f"client.options.directory: mount the bucket {target.bucket} for writing on every host, and say where"
            )
        if not any(os.path.ismount(place) for place in (self._directory, *self._directory.parents[:-1])):
            raise UsageError(
                f"client.options.directory={self._directory} lies in no mounted file system, so that it would measure "
                f"this machine's disk: mount the bucket {target.bucket} there first"
            )
        if not os.access(self._directory, os.W_OK):
            raise UsageError(f"client.options.directory={self._directory} is mounted for reading only")
        return f"{self._directory}/{target.prefix}"
