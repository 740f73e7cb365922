"""gcs-torch-dataflux: ``GCSDistributedWriter`` and ``GCSDistributedReader``.

They run in the peer's own environment: this module may use nothing that is not there.
"""

from __future__ import annotations

import importlib
from typing import Any

from bucketbench.clients.dataflux import prepare_environment
from bucketbench.clients.protocol import Target

__all__ = ["Dataflux"]


class Dataflux:
    """``GCSDistributedWriter`` and ``GCSDistributedReader``: files as whole objects, by way of memory.

    Args:
        thread_count: files that each rank writes at once; 1 is PyTorch's default.
    """

    def __init__(self, *, thread_count: int = 1) -> None:
        self._thread_count = thread_count

    def storage(self, target: Target) -> _Storage:
        """The checkpoints below the target's prefix."""
        prepare_environment(target)
        # In its own environment only.
        module: Any = importlib.import_module("dataflux_pytorch.lightning.gcs_filesystem")
        module.DatafluxCheckpointBuffer = _closed_once(module.DatafluxCheckpointBuffer)
        return _Storage(module, target, thread_count=self._thread_count)


def _closed_once(kind: Any) -> Any:
    """The library's buffer, as torch 2.13 uses it.

    Source: gcs-torch-dataflux 1.4: ``close`` uploads what was written, and raises when it is called again. torch's
    writer closes each file, and the library itself once more, so that every save fails.
    """

    class ClosedOnce(kind):  # type: ignore[misc]  # the class is known at run time only
        def close(self) -> None:
            if not self.closed:
                super().close()

    return ClosedOnce


class _Storage:
    def __init__(self, module: Any, target: Target, *, thread_count: int) -> None:
        self._module = module
        self._target = target
        self._thread_count = thread_count
        self._client = importlib.import_module("google.cloud.storage").Client(project=None)

    def writer(self, name: str) -> Any:
        return self._module.GCSDistributedWriter(
            self._target.uri + name,
            project_name=None,
            storage_client=self._client,
            thread_count=self._thread_count,
        )

    def reader(self, name: str) -> Any:
        return self._module.GCSDistributedReader(
            self._target.uri + name, project_name=None, storage_client=self._client
        )

    def is_saved(self, name: str) -> bool:
        return bool(self._bucket.blob(f"{self._target.prefix}{name}/.metadata").exists())

    def remove(self, name: str) -> None:
        for blob in self._bucket.list_blobs(prefix=f"{self._target.prefix}{name}/"):
            blob.delete()

    def close(self) -> None:
        self._client.close()

    @property
    def _bucket(self) -> Any:
        return self._client.bucket(self._target.bucket)
