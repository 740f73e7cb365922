"""s3torchconnector, Amazon S3 Connector for PyTorch: ``S3StorageWriter`` and ``S3StorageReader``."""

from __future__ import annotations

from typing import Any

from bucketbench.clients.protocol import Target
from bucketbench.clients.s3torchconnector import DEFAULT_PART_BYTES, DEFAULT_THROUGHPUT_TARGET_GBPS, connection

__all__ = ["S3TorchConnector"]


class S3TorchConnector:
    """``S3StorageWriter`` and ``S3StorageReader``, whose reader asks for the wanted ranges of each file.

    Args:
        thread_count: files that each rank writes at once; 1 is the library's default.
        throughput_target_gbps: what the library sizes its connection pool for; 10 is its own default.
        part_bytes: length of the parts that it uploads and downloads; 8 MiB is its own default.
    """

    def __init__(
        self,
        *,
        thread_count: int = 1,
        throughput_target_gbps: float = DEFAULT_THROUGHPUT_TARGET_GBPS,
        part_bytes: int = DEFAULT_PART_BYTES,
    ) -> None:
        self._thread_count = thread_count
        self._throughput_target_gbps = throughput_target_gbps
        self._part_bytes = part_bytes

    def storage(self, target: Target) -> _Storage:
        """The checkpoints below the target's prefix."""
        settings = connection(target, throughput_target_gbps=self._throughput_target_gbps, part_bytes=self._part_bytes)
        return _Storage(target, settings, thread_count=self._thread_count)


class _Storage:
    def __init__(self, target: Target, settings: dict[str, Any], *, thread_count: int) -> None:
        from s3torchconnector._s3client import S3Client

        self._target = target
        self._region = settings["region"]
        self._config = settings["s3client_config"]
        self._thread_count = thread_count
        # Source: s3torchconnector 1.5, S3StorageWriter and S3StorageReader: they take no endpoint, their client does.
        self._client = S3Client(self._region, endpoint=settings["endpoint"], s3client_config=self._config)

    def writer(self, name: str) -> Any:
        from s3torchconnector.dcp import S3StorageWriter

        return self._with_endpoint(
            S3StorageWriter(self._region, self._target.uri + name, self._config, thread_count=self._thread_count)
        )

    def reader(self, name: str) -> Any:
        from s3torchconnector.dcp import S3StorageReader

        return self._with_endpoint(S3StorageReader(self._region, self._target.uri + name, self._config))

    def _with_endpoint(self, storage: Any) -> Any:
        storage.fs._client = self._client
        return storage

    def is_saved(self, name: str) -> bool:
        key = f"{self._target.prefix}{name}/.metadata"
        pages = self._client.list_objects(self._target.bucket, key)
        return any(info.key == key for page in pages for info in page.object_info)

    def remove(self, name: str) -> None:
        prefix = f"{self._target.prefix}{name}/"
        for page in self._client.list_objects(self._target.bucket, prefix):
            for info in page.object_info:
                self._client.delete_object(self._target.bucket, info.key)

    def close(self) -> None:
        """The library has nothing to close."""
