"""gcs-torch-dataflux: ``DatafluxCheckpoint``, whose reader and writer torch is given.

It runs in the peer's own environment: this module may use nothing that is not there.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

from bucketbench.clients.dataflux import prepare_environment
from bucketbench.clients.protocol import Target

__all__ = ["Dataflux"]


class Dataflux:
    """``torch.save`` into ``DatafluxCheckpoint.writer``, ``torch.load`` from its reader: both have it all in memory.

    Args:
        multipart: whether what was written is uploaded in parts at once, as its writer does; otherwise by
            ``blob.open``, as its class for Lightning does with ``disable_multipart``.
    """

    def __init__(self, *, multipart: bool = True) -> None:
        self._multipart = multipart

    def checkpoints(self, target: Target) -> _Checkpoints:
        """The checkpoints below the target's prefix."""
        prepare_environment(target)
        module = importlib.import_module("dataflux_pytorch.dataflux_checkpoint")  # in its own environment only
        checkpoint = module.DatafluxCheckpoint(project_name=None, bucket_name=target.bucket)
        return _Checkpoints(checkpoint, target.prefix, multipart=self._multipart)


class _Checkpoints:
    def __init__(self, checkpoint: Any, prefix: str, *, multipart: bool) -> None:
        self._checkpoint = checkpoint
        self._prefix = prefix
        self._multipart = multipart

    def save(self, state: Any, key: str) -> None:
        with self._writer(self._prefix + key) as file:
            torch.save(state, file)

    def _writer(self, name: str) -> Any:
        if self._multipart:
            return self._checkpoint.writer(name)
        return self._checkpoint.bucket.blob(name).open("wb", ignore_flush=True)

    def load(self, key: str) -> Any:
        with self._checkpoint.reader(self._prefix + key) as file:
            return torch.load(file, weights_only=True)

    def remove(self, key: str) -> None:
        self._checkpoint.bucket.blob(self._prefix + key).delete()

    def close(self) -> None:
        self._checkpoint.storage_client.close()
