"""Decoding: images become tensors in the workers and reach the device."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from PIL import Image

from bucketbench.errors import ConfigurationError

__all__ = ["DecodeModel"]


class DecodeModel:
    """Turns each image into a ``uint8`` tensor of shape (3, side, side), and moves the batch to the device.

    An image is scaled so that its shorter side fits and cropped in its middle, as for evaluation; a JPEG is decoded at
    the smallest scale that still suffices, as its decoder can.

    Args:
        side: width and height in pixels.

    Raises:
        ConfigurationError: ``side`` is out of its range.
    """

    def __init__(self, *, side: int) -> None:
        if not 1 <= side <= 4096:
            raise ConfigurationError(f"model.options.side must be from 1 to 4096 pixels; got {side!r}")
        self.side = side
        self._device = torch.device("cpu")

    def decode(self, data: Any) -> torch.Tensor:
        """Decode one image file.

        Raises:
            OSError: it is no image, or not whole.
        """
        with Image.open(io.BytesIO(data)) as image:
            image.draft("RGB", (self.side, self.side))
            scale = self.side / min(image.size)
            width, height = (max(self.side, round(length * scale)) for length in image.size)
            scaled = image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
        left, top = (width - self.side) // 2, (height - self.side) // 2
        pixels = np.array(scaled.crop((left, top, left + self.side, top + self.side)))
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()

    def collate(self, samples: list[torch.Tensor]) -> torch.Tensor:
        """One ``uint8`` tensor of shape (samples, 3, side, side)."""
        return torch.stack(samples)

    def prepare(self, device: torch.device) -> None:
        """Remember the device."""
        self._device = device

    def step(self, batch: torch.Tensor) -> None:
        """Move the batch to the device and wait until it is there."""
        batch.to(self._device, non_blocking=True)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
