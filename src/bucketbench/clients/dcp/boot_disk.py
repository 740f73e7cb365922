"""The boot disk of each host, which the others do not see: where saves and loads can only be measured apart.

A host's ranks save their own files; none of them could load, since the metadata is on the first host alone. What is
loaded is saved into a bucket, and copied from there to every host.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bucketbench.clients.dcp.filesystems import Disk, Files
from bucketbench.clients.dcp.torchbucket import remove_all
from bucketbench.clients.host_copies import copy_from_bucket, is_first_of_host
from bucketbench.clients.protocol import Target
from bucketbench.clients.torchbucket import store_config
from bucketbench.errors import UsageError
from torchbucket.dcp import BucketStorageWriter

__all__ = ["BootDisk"]


class BootDisk(Disk):
    """``FileSystemWriter`` and ``FileSystemReader`` on disks that hosts do not share. A reference, not a contestant.

    With ``action=save`` and ``verify=false``, or ``action=load``; on one host it is ``Disk``. Arguments likewise.
    """

    def storage(self, target: Target) -> _HostFiles:
        """The checkpoints in the local directory of this host.

        Raises:
            UsageError: the target has none.
        """
        if target.local_directory is None:
            raise UsageError("the client saves local files, and this target has no local directory")
        return _HostFiles(target, Path(target.local_directory), thread_count=self._thread_count)


class _HostFiles(Files):
    def __init__(self, target: Target, directory: Path, *, thread_count: int) -> None:
        super().__init__(directory, thread_count=thread_count)
        self._target = target
        self._config = store_config(target)

    def bucket_writer(self, name: str) -> Any:
        return BucketStorageWriter(self._target.uri + name, config=self._config)

    def copy_here(self, name: str) -> None:
        copy_from_bucket(self._target, name, self._directory)

    def remove_from_bucket(self, name: str) -> None:
        remove_all(f"{self._target.uri}{name}/", self._config)

    def remove(self, name: str) -> None:
        if is_first_of_host() and (self._directory / name).exists():
            super().remove(name)
