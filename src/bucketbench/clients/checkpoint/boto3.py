"""boto3, the AWS SDK: its transfer manager, to and from memory."""

from __future__ import annotations

import io
from typing import Any

import torch

from bucketbench.clients.boto3 import make_client
from bucketbench.clients.protocol import Target

__all__ = ["Boto3"]


class Boto3:
    """``torch.save`` into memory and ``upload_fileobj``; ``download_fileobj`` into memory and ``torch.load``.

    *Source:* boto3, "File transfer configuration": ``max_concurrency`` 10, ``multipart_chunksize`` and
    ``multipart_threshold`` 8 MiB by default; a file object that can seek is read part by part, on its threads.

    Args:
        max_concurrency: threads and connections.
        multipart_chunksize: bytes of a part, and the size above which an object is split.
        multipart: whether an upload may be split at all; a download is in either case.
    """

    def __init__(self, *, max_concurrency: int, multipart_chunksize: int, multipart: bool = True) -> None:
        self._max_concurrency = max_concurrency
        self._multipart_chunksize = multipart_chunksize
        self._multipart = multipart

    def checkpoints(self, target: Target) -> _Checkpoints:
        """The checkpoints below the target's prefix."""
        from boto3.s3.transfer import TransferConfig

        download = TransferConfig(
            max_concurrency=self._max_concurrency,
            multipart_chunksize=self._multipart_chunksize,
            multipart_threshold=self._multipart_chunksize,
        )
        upload = download if self._multipart else TransferConfig(multipart_threshold=_LARGEST_PUT_BYTES)
        client = make_client(target, max_pool_connections=max(self._max_concurrency, 10))
        return _Checkpoints(client, target, upload=upload, download=download)


_LARGEST_PUT_BYTES = 5 * 1024**3
"""Largest object that one PUT makes. *Source*: Amazon S3, "Uploading objects"."""


class _Checkpoints:
    def __init__(self, client: Any, target: Target, *, upload: Any, download: Any) -> None:
        self._client = client
        self._target = target
        self._upload = upload
        self._download = download

    def save(self, state: Any, key: str) -> None:
        buffer = io.BytesIO()
        torch.save(state, buffer)
        buffer.seek(0)
        self._client.upload_fileobj(buffer, self._target.bucket, self._target.prefix + key, Config=self._upload)

    def load(self, key: str) -> Any:
        buffer = io.BytesIO()
        self._client.download_fileobj(self._target.bucket, self._target.prefix + key, buffer, Config=self._download)
        buffer.seek(0)
        return torch.load(buffer, weights_only=True)

    def remove(self, key: str) -> None:
        self._client.delete_object(Bucket=self._target.bucket, Key=self._target.prefix + key)

    def close(self) -> None:
        self._client.close()
