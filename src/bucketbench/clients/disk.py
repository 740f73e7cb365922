"""Local files: what a loader gets when the data are already on the machine. A reference, not a contestant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torch.utils.data import Dataset

from bucketbench.clients.objects import ObjectsByIndex, Sample
from bucketbench.clients.protocol import Target
from bucketbench.errors import UsageError

__all__ = ["Disk"]


class Disk:
    """``Path.read_bytes`` in ``__getitem__``. Usually from the page cache: then it measures memory, not a disk."""

    needs_local_copy = True
    reads_through = "disk"

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every file of the target's local directory.

        Raises:
            UsageError: the target has none, or it is empty.
        """
        if target.local_directory is None:
            raise UsageError("the client reads local files, and this target has no local copy of the data set")
        root = Path(target.local_directory)
        if not root.is_dir():
            raise UsageError(f"the client reads local files, and there is no directory {root}")
        return _Files(root, sorted(str(path.relative_to(root)) for path in _files(root)))


def _files(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file())


class _Files(ObjectsByIndex):
    def __init__(self, root: Path, keys: list[str]) -> None:
        super().__init__("", keys)
        self._root = root

    def read(self, key: str) -> bytes:
        return (self._root / key).read_bytes()
