"""No model: only the client is measured."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["NoModel"]


class NoModel:
    """Drops content in the worker, once it has been checked; only the number of samples reaches the main process.

    So neither decoding nor the DataLoader's queue between processes, which is the same for every client, is part of
    the figures.
    """

    def decode(self, data: Any) -> None:
        """Drop one sample's content."""

    def collate(self, samples: list[Any]) -> int:
        """The number of samples."""
        return len(samples)

    def prepare(self, device: torch.device) -> None:
        """Nothing to get ready."""

    def step(self, batch: Any) -> None:
        """Nothing to do."""
