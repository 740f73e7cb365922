"""torchbucket: ``BucketCheckpointIO``, and ``AsyncBucketCheckpointIO``, which saves in the background."""

from __future__ import annotations

from typing import Any

from bucketbench.clients.protocol import Target
from bucketbench.clients.torchbucket import checked_settings, store_config

__all__ = ["Torchbucket", "TorchbucketAsync"]


class Torchbucket:
    """``BucketCheckpointIO``.

    Args:
        multipart: whether large checkpoints are sent in parts.
        settings: fields of ``StoreConfig`` that the target does not give.
    """

    def __init__(self, *, multipart: bool = True, **settings: Any) -> None:
        self._multipart = multipart
        self._settings = checked_settings(settings)

    def checkpoint_io(self, target: Target) -> Any:
        """The plugin."""
        from torchbucket.lightning import BucketCheckpointIO

        return BucketCheckpointIO(store_config(target, **self._settings), multipart=self._multipart)


class TorchbucketAsync(Torchbucket):
    """``AsyncBucketCheckpointIO``. Arguments as of :class:`Torchbucket`."""

    saves_in_background = True

    def checkpoint_io(self, target: Target) -> Any:
        """The plugin."""
        from torchbucket.lightning import AsyncBucketCheckpointIO

        return AsyncBucketCheckpointIO(store_config(target, **self._settings), multipart=self._multipart)
