"""No model: only the client is measured."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["NoModel"]


class NoModel:
    """Drops content in the worker, once it has been checked; nothing reaches the main process, and no step is made.

    So neither decoding nor the DataLoader's queue between processes, which is the same for every client, is part of
    the figures.
    """

    def decode(self, data: Any) -> None:
        """Drop one sample's content."""

    def collate(self, samples: list[Any]) -> None:
        """Nothing to pass on."""

    def prepare(self, device: torch.device) -> None:
        """Nothing to get ready."""

    def step(self, batch: Any) -> None:
        """Never called: there is nothing to step on."""
