"""google-cloud-storage, Google's SDK: a blob opened as a file, and its transfer manager."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from bucketbench.clients.google_storage import make_client
from bucketbench.clients.protocol import Target
from bucketbench.errors import ConfigurationError

__all__ = ["GoogleStorageOpen", "GoogleStorageTransfer", "Worker"]

Worker = Literal["process", "thread"]


class GoogleStorageOpen:
    """``torch.save`` into what ``blob.open`` gives, ``torch.load`` from that, every setting at its default."""

    def checkpoints(self, target: Target) -> _Opened:
        """The checkpoints below the target's prefix."""
        return _Opened(make_client(target), target)


class GoogleStorageTransfer:
    """``upload_chunks_concurrently`` of a temporary file, ``download_chunks_concurrently`` into one.

    *Source:* google-cloud-storage, ``transfer_manager``: both take names of files and nothing else; chunks of 32 MiB
    and 8 workers, which are processes, by default.

    Args:
        worker_type: ``process``, which the documentation advises for large files, or ``thread``.
        max_workers: how many.
        chunk_bytes: length of a part or a range.
        multipart: whether an upload is split at all; ``upload_from_filename`` otherwise.
    """

    def __init__(self, *, worker_type: Worker, max_workers: int, chunk_bytes: int, multipart: bool = True) -> None:
        if worker_type not in get_args(Worker):
            raise ConfigurationError(
                f"client.options.worker_type must be one of {', '.join(get_args(Worker))}; got {worker_type!r}"
            )
        self._options = {"worker_type": worker_type, "max_workers": max_workers, "chunk_size": chunk_bytes}
        self._multipart = multipart

    def checkpoints(self, target: Target) -> _Transferred:
        """The checkpoints below the target's prefix."""
        client = make_client(target, connections=int(self._options["max_workers"]))
        return _Transferred(client, target, self._options, multipart=self._multipart)


class _Opened:
    def __init__(self, client: Any, target: Target) -> None:
        self._client = client
        self._bucket = client.bucket(target.bucket)
        self._prefix = target.prefix

    def save(self, state: Any, key: str) -> None:
        # Source: google-cloud-storage, Blob.open: a writer cannot flush before its end, and raises where it is asked to
        # unless it was told to ignore that.
        with self._bucket.blob(self._prefix + key).open("wb", ignore_flush=True) as file:
            torch.save(state, file)

    def load(self, key: str) -> Any:
        with self._bucket.blob(self._prefix + key).open("rb") as file:
            return torch.load(file, weights_only=True)

    def remove(self, key: str) -> None:
        self._bucket.blob(self._prefix + key).delete()

    def close(self) -> None:
        self._client.close()


class _Transferred:
    def __init__(self, client: Any, target: Target, options: dict[str, Any], *, multipart: bool) -> None:
        self._client = client
        self._bucket = client.bucket(target.bucket)
        self._prefix = target.prefix
        self._local_directory = target.local_directory
        self._options = options
        self._multipart = multipart

    def save(self, state: Any, key: str) -> None:
        from google.cloud.storage import transfer_manager

        blob = self._bucket.blob(self._prefix + key)
        with tempfile.TemporaryDirectory(dir=self._local_directory) as directory:
            path = str(Path(directory) / "checkpoint")
            torch.save(state, path)
            if self._multipart:
                transfer_manager.upload_chunks_concurrently(path, blob, **self._options)
            else:
                blob.upload_from_filename(path)

    def load(self, key: str) -> Any:
        from google.cloud.storage import transfer_manager

        blob = self._bucket.blob(self._prefix + key)
        with tempfile.TemporaryDirectory(dir=self._local_directory) as directory:
            path = str(Path(directory) / "checkpoint")
            transfer_manager.download_chunks_concurrently(blob, path, **self._options)
            return torch.load(path, weights_only=True)

    def remove(self, key: str) -> None:
        self._bucket.blob(self._prefix + key).delete()

    def close(self) -> None:
        self._client.close()
