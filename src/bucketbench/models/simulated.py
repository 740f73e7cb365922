"""Simulated compute: a training step that takes a published time and leaves the processor free."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from bucketbench.errors import ConfigurationError

__all__ = ["SimulatedModel"]


class SimulatedModel:
    """Sleeps for as long as an accelerator would compute, so that a loop demands data as fast as that one does.

    A worker joins the samples of a batch, as they were stored, into one flat ``uint8`` tensor; the loop receives it as
    it would a real batch, moves it to the device, and sleeps. A batch that is not full takes its share of the time, so
    that an epoch's compute time depends on its samples alone.

    *Source* of the method: DLIO benchmark, ``train.computation_time``
    (https://dlio-benchmark.readthedocs.io/en/latest/config.html); MLPerf Storage uses it likewise.

    Args:
        compute_time_s: seconds that a full batch takes.
        batch_size: samples of a full batch.

    Raises:
        ConfigurationError: a value is out of its range.
    """

    def __init__(self, *, compute_time_s: float, batch_size: int) -> None:
        if not 0 < compute_time_s <= 3600:
            raise ConfigurationError(
                f"model.options.compute_time_s must be above 0 and at most 3600 s; got {compute_time_s!r}"
            )
        if batch_size < 1:
            raise ConfigurationError(f"model.options.batch_size must be at least 1; got {batch_size!r}")
        self._sample_time_s = compute_time_s / batch_size
        self._device = torch.device("cpu")

    def decode(self, data: Any) -> Any:
        """Take one sample's content as it is."""
        return data

    def collate(self, samples: list[Any]) -> tuple[torch.Tensor, int]:
        """All bytes of the batch in one flat ``uint8`` tensor, and the number of samples."""
        content = np.concatenate([np.frombuffer(data, np.uint8) for data in samples])
        return torch.from_numpy(content), len(samples)

    def prepare(self, device: torch.device) -> None:
        """Remember the device."""
        self._device = device

    def step(self, batch: tuple[torch.Tensor, int]) -> None:
        """Move the batch to the device, and return when its compute time is over."""
        ends_s = time.monotonic()
        content, samples = batch
        ends_s += samples * self._sample_time_s
        content.to(self._device, non_blocking=True)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        left_s = ends_s - time.monotonic()
        if left_s > 0:
            time.sleep(left_s)
