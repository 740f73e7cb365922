"""Local files: what saving costs without a network. A reference, not a contestant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from bucketbench.clients.protocol import Target
from bucketbench.errors import UsageError

__all__ = ["Disk"]


class Disk:
    """``torch.save`` into a file, written through to the disk; ``torch.load`` of one that memory does not hold."""

    reads_through = "disk"

    def checkpoints(self, target: Target) -> _Files:
        """The checkpoints in the target's local directory.

        Raises:
            UsageError: the target has none.
        """
        if target.local_directory is None:
            raise UsageError("the client saves local files, and this target has no local directory")
        return _Files(Path(target.local_directory))


class _Files:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def save(self, state: Any, key: str) -> None:
        path = self._directory / key
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.unfinished")
        with unfinished.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        # Source: fsync(2): the file is on the disk, its name in the directory not yet.
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def load(self, key: str) -> Any:
        with (self._directory / key).open("rb") as file:
            if hasattr(os, "posix_fadvise"):
                # What was written just now would come from the page cache, which measures no disk.
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return torch.load(file, weights_only=True)

    def remove(self, key: str) -> None:
        (self._directory / key).unlink()

    def close(self) -> None:
        """Nothing is open."""
