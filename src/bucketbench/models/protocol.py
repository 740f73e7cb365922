"""What is done with a sample once its bytes are there: by a worker, and by the training loop."""

from __future__ import annotations

from typing import Any, Protocol

import torch

__all__ = ["Model"]


class Model(Protocol):
    """What consumes the samples: a small class, built from the ``options`` of its configuration.

    ``decode`` and ``collate`` run in the DataLoader's workers, so an object of the class must be picklable as long as
    ``prepare`` was not called; ``prepare`` and ``step`` run in the measured process itself. Time in ``decode`` and
    ``collate`` is recorded as decoding, time in ``step`` as the step's.
    """

    def decode(self, data: Any) -> Any:
        """Make of one sample's content, a bytes-like object, what ``collate`` takes; raise where it is damaged."""
        ...

    def collate(self, samples: list[Any]) -> Any:
        """Make one batch of decoded samples, of which there is at least one; None makes no step of it."""
        ...

    def prepare(self, device: torch.device) -> None:
        """Get ready to step on a device; called once, before the warm-up."""
        ...

    def step(self, batch: Any) -> None:
        """Use one batch, and return when the device is done with it."""
        ...
