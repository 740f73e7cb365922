"""torchbucket's map data set, each fetch of a batch longer by a part of the time that it took."""

from __future__ import annotations

import time
from typing import Any

from torch.utils.data import Dataset

from bucketbench.clients.protocol import Target
from bucketbench.clients.torchbucket import TorchbucketMap

__all__ = ["DelayedMap"]


class DelayedMap:
    """A client that is slower than another by a known part, or, with 0, the same as it.

    It reads no batch ahead, since what is read ahead goes on during a delay.

    Args:
        by: by how much longer a fetch takes: 0.15 is 15 %.
    """

    def __init__(self, *, by: float) -> None:
        self._client = TorchbucketMap()
        self._by = by

    def dataset(self, target: Target) -> Dataset[Any]:
        """The data set of the target."""
        return _Delayed(self._client.dataset(target), self._by)


class _Delayed(Dataset[Any]):
    def __init__(self, inner: Any, by: float) -> None:
        self._inner = inner
        self._by = by

    def __len__(self) -> int:
        return len(self._inner)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        started_s = time.perf_counter()
        samples: list[Any] = self._inner.__getitems__(indices)
        if self._by:
            time.sleep(self._by * (time.perf_counter() - started_s))
        return samples
