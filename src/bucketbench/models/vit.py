"""A vision transformer with random weights, trained for real: forward, loss, backward, optimizer."""

from __future__ import annotations

from typing import Any

import torch

from bucketbench.errors import ConfigurationError
from bucketbench.models.decode import DecodeModel

__all__ = ["VitModel"]


class VitModel(DecodeModel):
    """Trains a ViT of the given size on the images, with random labels: a loop that consumes data as a real one does.

    Nothing is downloaded: the network is built from its configuration. What it learns is meaningless; what it costs is
    what such a network costs. Images are decoded as by :class:`DecodeModel` and normalised on the device.

    Args:
        side: width and height of the images, in pixels.
        patch_side: width and height of a patch, in pixels; divides ``side``.
        hidden_size: width of the network; ``num_heads`` divides it. The feed-forward layers have four times as much.
        num_layers: number of transformer blocks.
        num_heads: attention heads of a block.
        num_classes: labels are drawn from so many.
        learning_rate: of AdamW.
        seed: fixes weights and labels.

    Raises:
        ConfigurationError: one size does not divide another.
    """

    def __init__(
        self,
        *,
        side: int,
        patch_side: int,
        hidden_size: int,
        num_layers: int,
        num_heads: int,
        num_classes: int,
        learning_rate: float,
        seed: int,
    ) -> None:
        super().__init__(side=side)
        if side % patch_side:
            raise ConfigurationError(
                f"model.options.patch_side must divide model.options.side; got {patch_side} and {side}"
            )
        if hidden_size % num_heads:
            raise ConfigurationError(
                f"model.options.num_heads must divide model.options.hidden_size; got {num_heads} and {hidden_size}"
            )
        self._sizes: dict[str, Any] = {
            "image_size": side,
            "patch_size": patch_side,
            "hidden_size": hidden_size,
            "num_hidden_layers": num_layers,
            "num_attention_heads": num_heads,
            "intermediate_size": 4 * hidden_size,
            "num_labels": num_classes,
        }
        self._num_classes = num_classes
        self._learning_rate = learning_rate
        self._seed = seed
        self.network: Any = None
        self._optimizer: torch.optim.Optimizer | None = None
        self._labels: torch.Generator | None = None

    def prepare(self, device: torch.device) -> None:
        """Build the network and its optimizer on the device."""
        from transformers import ViTConfig, ViTForImageClassification

        super().prepare(device)
        # The weights are drawn on the CPU, so that they do not depend on the device, and no one else's state changes.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            network: Any = ViTForImageClassification(ViTConfig(**self._sizes))
        self.network = network.to(device).train()
        self._optimizer = torch.optim.AdamW(self.network.parameters(), lr=self._learning_rate)
        self._labels = torch.Generator().manual_seed(self._seed)

    def step(self, batch: torch.Tensor) -> None:
        """One training step on a batch of shape (samples, 3, side, side), until the device has done it.

        Raises:
            RuntimeError: ``prepare`` was not called.
            FloatingPointError: the loss is not finite.
        """
        if self._optimizer is None:
            raise RuntimeError("prepare(device) must be called before step(batch)")
        labels = torch.randint(self._num_classes, (len(batch),), generator=self._labels).to(self._device)
        pixels = batch.to(self._device, non_blocking=True).float().div_(127.5).sub_(1.0)
        loss = self.network(pixel_values=pixels, labels=labels).loss
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()
        if self._device.type == "cuda":
            # Without this a step would be recorded as the time it takes to queue it.
            torch.cuda.synchronize(self._device)
        if not torch.isfinite(loss):
            raise FloatingPointError(f"the loss of a training step is {loss.item()}")
