"""Files below a mounted bucket: rclone, which the client mounts itself, or whatever is mounted already."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from bucketbench.clients.mount_caches import mount_cache
from bucketbench.clients.mounting import HeldMount
from bucketbench.clients.objects import ObjectsByIndex, Sample
from bucketbench.clients.protocol import Target
from bucketbench.errors import UsageError

__all__ = ["Mount"]


class Mount:
    """``Path.read_bytes`` in ``__getitem__``, one file after another in each worker, as programs read a mounted bucket.

    Args:
        directory: where the target's bucket is mounted, by mountpoint-s3, gcsfuse or rclone; None has the client mount
            it with rclone, for the time of the job.
        cached: whether a mount that keeps what was read, in the page cache or in one of its own, is measured as it is;
            otherwise it is refused, since every pass but the first would measure this machine.
    """

    reads_through = "mount"

    def __init__(self, *, directory: str | None = None, cached: bool = False) -> None:
        self._directory = directory
        self._cached = cached

    def dataset(self, target: Target) -> Dataset[Sample]:
        """A map data set over every file below the target's prefix.

        Raises:
            UsageError: the directory is no mount, or one that caches, or this machine cannot mount.
        """
        if self._directory is None:
            mount = HeldMount(target)
            return _Files(mount.directory, target, mount=mount)
        root = Path(self._directory).expanduser().absolute()
        if not root.is_dir():
            raise UsageError(
                f"client.options.directory={self._directory} is no directory: mount the bucket there first"
            )
        mounted = next((place for place in (root, *root.parents[:-1]) if os.path.ismount(place)), None)
        if mounted is None:
            raise UsageError(
                f"client.options.directory={self._directory} lies in no mounted file system, so that it would measure "
                f"this machine's disk: mount the bucket {target.bucket} there first"
            )
        files = _Files(root, target, mount=None)
        if not self._cached and (cache := files.cache(mounted)) is not None:
            raise UsageError(
                f"the mount at {mounted} caches: {cache}. Mount it without a cache, or measure it as it is with "
                "client.options.cached=true"
            )
        return files


class _Files(ObjectsByIndex):
    def __init__(self, root: Path, target: Target, *, mount: HeldMount | None) -> None:
        found = (Path(place) / name for place, _, names in os.walk(root / target.prefix) for name in names)
        super().__init__(target.prefix, sorted(str(path.relative_to(root)) for path in found))
        self._root = root
        self._mount = mount

    def read(self, key: str) -> bytes:
        return (self._root / key).read_bytes()

    def cache(self, mounted: Path) -> str | None:
        """What keeps the mount's content on this machine, as far as the first file that is not empty tells it."""
        paths = (self._root / key for key in self.keys)
        file = next((path for path in paths if path.stat().st_size), None)
        return None if file is None else mount_cache(mounted, file)

    def __getstate__(self) -> dict[str, Any]:
        # The mount is the main process's; a worker that gets this by pickle only reads below it.
        return {**self.__dict__, "_mount": None}
