"""gcs-torch-dataflux, Google's Connector for PyTorch: its map and iterable data sets, with and without compose.

It needs a google-cloud-storage older than the other clients', and so an environment of its own, in which this module is
imported: it may use nothing that is not there.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data import Dataset, IterableDataset, get_worker_info

from bucketbench.clients.objects import Sample
from bucketbench.clients.protocol import Target
from bucketbench.clients.trust import trust_by_environment
from bucketbench.errors import UsageError

__all__ = ["DatafluxIterable", "DatafluxMap", "prepare_environment"]

_GOOGLE = "https://storage.googleapis.com"


class DatafluxMap:
    """``DataFluxMapStyleDataset``. It takes a batch at once, in as many threads as it is told.

    Args:
        compose: whether small objects are composed to larger temporary ones that are read and deleted, the library's
            default. It needs the permission to write.
        threads_per_process: threads that share a batch's objects; 1, the library's default, reads one after another.
    """

    def __init__(self, *, compose: bool = True, threads_per_process: int = 1) -> None:
        self._compose = compose
        self.expects = "compose" if compose else None
        self._threads_per_process = threads_per_process

    def dataset(self, target: Target) -> Dataset[Sample]:
        """The library's map data set over every object of the target, listed, with the objects' keys."""
        prepare_environment(target)
        module = importlib.import_module("dataflux_pytorch.dataflux_mapstyle_dataset")  # in its own environment only

        config = module.Config(
            prefix=target.prefix, disable_compose=not self._compose, threads_per_process=self._threads_per_process
        )
        return _KeyedMap(module.DataFluxMapStyleDataset(None, target.bucket, config=config), target)


class DatafluxIterable:
    """``DataFluxIterableDataset``, which shares its objects out between workers in consecutive pieces.

    Args:
        compose: as of :class:`DatafluxMap`.
    """

    def __init__(self, *, compose: bool = True) -> None:
        self._compose = compose
        self.expects = "compose" if compose else None

    def dataset(self, target: Target) -> IterableDataset[Sample]:
        """The library's iterable data set over every object of the target, listed, with the objects' keys."""
        prepare_environment(target)
        module = importlib.import_module("dataflux_pytorch.dataflux_iterable_dataset")  # in its own environment only

        config = module.Config(prefix=target.prefix, disable_compose=not self._compose)
        return _KeyedIterable(module.DataFluxIterableDataset(None, target.bucket, config=config), target)


def prepare_environment(target: Target) -> None:
    """Tell google-cloud-storage by the environment where the service is.

    The library makes clients of its own, in its listing's processes and wherever its data set is unpickled: one that it
    is given does not reach those.
    """
    trust_by_environment(target, "REQUESTS_CA_BUNDLE")
    if target.anonymous:
        # Source: google-cloud-storage, storage.Client: with an emulator's address it sends no credentials.
        os.environ["STORAGE_EMULATOR_HOST"] = target.endpoint or _GOOGLE
    elif target.endpoint is not None:
        os.environ["API_ENDPOINT_OVERRIDE"] = target.endpoint


def _listed(inner: Any, target: Target) -> Sequence[tuple[str, int]]:
    objects: Sequence[tuple[str, int]] = inner.objects
    if not objects:
        raise UsageError(
            f"gcs-torch-dataflux lists no object under {target.uri}: generate the data set, or correct the target's "
            "bucket and the data's prefix (it leaves out objects of another storage class than STANDARD)"
        )
    return objects


class _KeyedMap(Dataset[Sample]):
    """Adds the keys, which the library's data set does not deliver."""

    def __init__(self, inner: Any, target: Target) -> None:
        self._inner = inner
        self._prefix = target.prefix
        self._objects = _listed(inner, target)

    def __len__(self) -> int:
        return len(self._objects)

    def __getitem__(self, index: int) -> Sample:
        return self._key(index), self._inner[index]

    def __getitems__(self, indices: list[int]) -> list[Sample]:
        contents = self._inner.__getitems__(indices)
        if len(contents) != len(indices):
            # An exception in one of its threads ends that thread, and nothing else.
            raise OSError(f"gcs-torch-dataflux delivered {len(contents)} of the {len(indices)} objects of a batch")
        return [(self._key(index), content) for index, content in zip(indices, contents, strict=True)]

    def _key(self, index: int) -> str:
        return self._objects[index][0].removeprefix(self._prefix)


class _KeyedIterable(IterableDataset[Sample]):
    """Adds the keys, by the order and the shares in which the library delivers."""

    def __init__(self, inner: Any, target: Target) -> None:
        self._inner = inner
        self._prefix = target.prefix
        self._objects = _listed(inner, target)

    def __iter__(self) -> Iterator[Sample]:
        info = get_worker_info()
        # Source: dataflux_pytorch 1.4, DataFluxIterableDataset.__iter__.
        share = len(self._objects) if info is None else math.ceil(len(self._objects) / info.num_workers)
        start = 0 if info is None else info.id * share
        objects = self._objects[start : start + share]
        contents = iter(self._inner)
        try:
            for (name, _), content in zip(objects, contents, strict=True):
                yield name.removeprefix(self._prefix), content
        finally:
            contents.close()  # a pass that is cut short ends here and now, not when memory is collected
