"""The boot disk of each host, which the others do not see: where saves and loads can only be measured apart.

A host's ranks save their own files; none of them could load, since the metadata is on the first host alone. What is
loaded is saved into the bucket, and copied from there to every host.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from lightning.pytorch.strategies import ModelParallelStrategy

from bucketbench.clients.host_copies import copy_from_bucket, is_first_of_host
from bucketbench.clients.lightning_fsdp.files import Disk
from bucketbench.clients.lightning_fsdp.torchbucket import Torchbucket
from bucketbench.clients.protocol import Target

__all__ = ["BootDisk"]


class BootDisk(Disk):
    """Lightning's own strategy on disks that hosts do not share. A reference, not a contestant.

    With ``action=save`` and ``verify=false``, or ``action=load``; on one host it is ``Disk``.
    """

    def __init__(self) -> None:
        self.in_bucket = Torchbucket()

    def strategy(self, target: Target, world_size: int) -> Any:
        """The strategy."""
        del target
        return HostStrategy(data_parallel_size=world_size, tensor_parallel_size=1)

    def copy_here(self, target: Target, key: str) -> None:
        """Copy a checkpoint from the target's bucket."""
        copy_from_bucket(target, key, Path(self.root(target)))


class HostStrategy(ModelParallelStrategy):
    """Lightning's own, of whose checkpoints each host has a part."""

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any | None = None) -> None:
        """Save, also where this host has its part of an earlier one."""
        self.remove_checkpoint(filepath)  # it has no ``meta.pt``, and Lightning refuses a directory without
        self.barrier()
        super().save_checkpoint(checkpoint, filepath, storage_options)

    def remove_checkpoint(self, filepath: Any) -> None:
        """Remove this host's part."""
        if is_first_of_host():
            shutil.rmtree(filepath, ignore_errors=True)
