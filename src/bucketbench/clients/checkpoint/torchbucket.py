"""torchbucket: ``Checkpoint.save``, ``save_async`` and ``load``."""

from __future__ import annotations

from typing import Any

import torchbucket
from bucketbench.clients.protocol import Target
from bucketbench.clients.torchbucket import checked_settings, store_config
from torchbucket.checkpoint.archive import can_lay_out

__all__ = ["Torchbucket", "TorchbucketAsync"]


class Torchbucket:
    """``Checkpoint.save`` and ``Checkpoint.load``.

    Args:
        multipart: whether large objects are sent in parts.
        settings: fields of ``StoreConfig`` that the target does not give.
    """

    def __init__(self, *, multipart: bool = True, **settings: Any) -> None:
        self._multipart = multipart
        self._settings = checked_settings(settings)

    @property
    def fallback(self) -> str | None:
        """Why a state is not sent from its own memory; None where it is."""
        if can_lay_out():
            return None
        return "this torch cannot lay out a checkpoint without its data (torch.serialization.skip_data); it is copied"

    def checkpoints(self, target: Target) -> _Saved:
        """The checkpoints below the target's prefix."""
        return _Saved(target, self._settings, multipart=self._multipart)


class TorchbucketAsync(Torchbucket):
    """``Checkpoint.save_async``, which copies the state and returns, and ``Checkpoint.load``.

    Arguments as of :class:`Torchbucket`.
    """

    def checkpoints(self, target: Target) -> _SavedInBackground:
        """The checkpoints below the target's prefix."""
        return _SavedInBackground(target, self._settings, multipart=self._multipart)


class _Saved:
    def __init__(self, target: Target, settings: dict[str, Any], *, multipart: bool) -> None:
        self._checkpoint = torchbucket.Checkpoint(target.uri, config=store_config(target, **settings))
        self._prefix = target.prefix
        self._multipart = multipart

    def save(self, state: Any, key: str) -> None:
        self._checkpoint.save(state, key, multipart=self._multipart)

    def load(self, key: str) -> Any:
        return self._checkpoint.load(key)

    def remove(self, key: str) -> None:
        self._checkpoint.store.delete(self._prefix + key)

    def close(self) -> None:
        """The store is shared in the process, which ends it."""


class _SavedInBackground(_Saved):
    def save_async(self, state: Any, key: str) -> torchbucket.SaveFuture:
        return self._checkpoint.save_async(state, key, multipart=self._multipart)
