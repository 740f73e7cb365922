"""s3torchconnector, Amazon S3 Connector for PyTorch: ``S3Checkpoint``, whose reader and writer torch is given."""

from __future__ import annotations

from typing import Any

import torch

from bucketbench.clients.protocol import Target
from bucketbench.clients.s3torchconnector import (
    DEFAULT_PART_BYTES,
    DEFAULT_THROUGHPUT_TARGET_GBPS,
    Reader,
    checked_reader,
    connection,
)

__all__ = ["S3TorchConnector"]


class S3TorchConnector:
    """``torch.save`` into ``S3Checkpoint.writer``, ``torch.load`` from its reader.

    Args:
        reader: ``sequential``, all that ``S3Checkpoint`` itself offers, or ``range``, which its client has besides.
        throughput_target_gbps: what the library sizes its connection pool for; 10 is its own default.
        part_bytes: length of the parts that it uploads and downloads; 8 MiB is its own default.
    """

    def __init__(
        self,
        *,
        reader: Reader = "sequential",
        throughput_target_gbps: float = DEFAULT_THROUGHPUT_TARGET_GBPS,
        part_bytes: int = DEFAULT_PART_BYTES,
    ) -> None:
        self._reader = checked_reader(reader)
        self._throughput_target_gbps = throughput_target_gbps
        self._part_bytes = part_bytes

    def checkpoints(self, target: Target) -> _Checkpoints:
        """The checkpoints below the target's prefix."""
        from s3torchconnector import S3Checkpoint

        settings = connection(target, throughput_target_gbps=self._throughput_target_gbps, part_bytes=self._part_bytes)
        return _Checkpoints(S3Checkpoint(**settings), target, self._reader)


class _Checkpoints:
    def __init__(self, checkpoint: Any, target: Target, reader: Reader) -> None:
        self._checkpoint = checkpoint
        self._target = target
        self._reader = reader

    def save(self, state: Any, key: str) -> None:
        with self._checkpoint.writer(self._target.uri + key) as file:
            torch.save(state, file)

    def load(self, key: str) -> Any:
        with self._open(key) as file:
            return torch.load(file, weights_only=True)

    def _open(self, key: str) -> Any:
        if self._reader == "sequential":
            return self._checkpoint.reader(self._target.uri + key)
        from s3torchconnector import S3ReaderConstructor

        # Source: s3torchconnector 1.5, S3Checkpoint.reader: it takes no reader constructor, its client does.
        return self._checkpoint._client.get_object(
            self._target.bucket, self._target.prefix + key, reader_constructor=S3ReaderConstructor.range_based()
        )

    def remove(self, key: str) -> None:
        self._checkpoint._client.delete_object(self._target.bucket, self._target.prefix + key)

    def close(self) -> None:
        """The library has nothing to close."""
