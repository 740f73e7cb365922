"""torchbucket: ``BucketModelParallelStrategy``."""

from __future__ import annotations

from typing import Any

from bucketbench.clients.protocol import Target
from bucketbench.clients.torchbucket import checked_settings, store_config

__all__ = ["Torchbucket", "TorchbucketAsync"]


class Torchbucket:
    """``BucketModelParallelStrategy``.

    Args:
        settings: fields of ``StoreConfig`` that the target does not give.
    """

    saves_in_background = False

    def __init__(self, **settings: Any) -> None:
        self._settings = checked_settings(settings)

    def strategy(self, target: Target, world_size: int) -> Any:
        """The strategy."""
        from torchbucket.lightning import BucketModelParallelStrategy

        return BucketModelParallelStrategy(
            config=store_config(target, **self._settings),
            use_async=self.saves_in_background,
            data_parallel_size=world_size,
            tensor_parallel_size=1,
        )

    def root(self, target: Target) -> str:
        """The target's own."""
        return target.uri

    def is_saved(self, target: Target, path: str) -> bool:
        """As ``torchbucket.dcp`` tells it."""
        from torchbucket.dcp import is_complete

        return is_complete(path, config=store_config(target, **self._settings))

    def close(self) -> None:
        """The store is shared in the process, which ends it."""


class TorchbucketAsync(Torchbucket):
    """``BucketModelParallelStrategy(use_async=True)``. Arguments as of :class:`Torchbucket`."""

    saves_in_background = True
