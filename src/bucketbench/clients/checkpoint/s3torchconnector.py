"""s3torchconnector, Amazon S3 Connector for PyTorch: ``S3Checkpoint``, whose reader and writer torch is given."""

from __future__ import annotations

import os
from typing import Any, Final, get_args

import torch

from bucketbench.clients.protocol import Target
from bucketbench.clients.s3torchconnector import Reader
from bucketbench.clients.trust import trust_by_environment
from bucketbench.errors import ConfigurationError, UsageError

__all__ = ["S3TorchConnector", "connection"]

# What S3ClientConfig itself has. Source: s3torchconnector 1.5, S3ClientConfig.
_DEFAULT_THROUGHPUT_TARGET_GBPS: Final = 10.0
_DEFAULT_PART_BYTES: Final = 8 * 1024 * 1024


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
        throughput_target_gbps: float = _DEFAULT_THROUGHPUT_TARGET_GBPS,
        part_bytes: int = _DEFAULT_PART_BYTES,
    ) -> None:
        if reader not in get_args(Reader):
            raise ConfigurationError(
                f"client.options.reader must be one of {', '.join(get_args(Reader))}; got {reader!r}"
            )
        self._reader: Reader = reader
        self._throughput_target_gbps = throughput_target_gbps
        self._part_bytes = part_bytes

    def checkpoints(self, target: Target) -> _Checkpoints:
        """The checkpoints below the target's prefix."""
        from s3torchconnector import S3Checkpoint

        settings = connection(target, throughput_target_gbps=self._throughput_target_gbps, part_bytes=self._part_bytes)
        return _Checkpoints(S3Checkpoint(**settings), target, self._reader)


def connection(
    target: Target,
    *,
    throughput_target_gbps: float = _DEFAULT_THROUGHPUT_TARGET_GBPS,
    part_bytes: int = _DEFAULT_PART_BYTES,
) -> dict[str, Any]:
    """What each of the library's classes for checkpoints takes: region, endpoint and the client's settings.

    Raises:
        UsageError: there is no region, neither in the target nor in the environment.
    """
    region = target.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None:
        raise UsageError("s3torchconnector finds no region by itself: set target.region, or AWS_REGION")
    trust_by_environment(target, "SSL_CERT_FILE")  # its TLS stack has no argument for it
    from s3torchconnector import S3ClientConfig

    return {
        "region": region,
        "endpoint": target.endpoint,
        "s3client_config": S3ClientConfig(
            throughput_target_gbps=throughput_target_gbps,
            part_size=part_bytes,
            force_path_style=target.path_style,
            unsigned=target.anonymous,
        ),
    }


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
