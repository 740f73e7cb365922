"""gcs-torch-dataflux: ``DatafluxLightningCheckpoint``, and Lightning's ``AsyncCheckpointIO`` around it.

It runs in the peer's own environment: this module may use nothing that is not there.
"""

from __future__ import annotations

import importlib
from typing import Any

from bucketbench.clients.dataflux import prepare_environment
from bucketbench.clients.protocol import Target

__all__ = ["Dataflux", "DatafluxAsync"]


class Dataflux:
    """``DatafluxLightningCheckpoint``.

    Args:
        multipart: whether what was written is uploaded in parts at once, its default.
    """

    def __init__(self, *, multipart: bool = True) -> None:
        self._multipart = multipart

    def checkpoint_io(self, target: Target) -> Any:
        """The plugin."""
        return _takes_weights_only(_module(target).DatafluxLightningCheckpoint)(
            project_name=None, disable_multipart=not self._multipart
        )


class DatafluxAsync(Dataflux):
    """Lightning's ``AsyncCheckpointIO`` around it, as ``DatafluxLightningAsyncCheckpoint`` is. Arguments likewise."""

    saves_in_background = True

    def checkpoint_io(self, target: Target) -> Any:
        """The plugin."""
        from lightning.pytorch.plugins.io import AsyncCheckpointIO

        return AsyncCheckpointIO(super().checkpoint_io(target))


def _module(target: Target) -> Any:
    prepare_environment(target)
    # In its own environment only.
    return importlib.import_module("dataflux_pytorch.lightning.dataflux_lightning_checkpoint")


def _takes_weights_only(kind: Any) -> Any:
    """The library's class, as Lightning 2.6 calls it.

    Source: gcs-torch-dataflux 1.4: its ``load_checkpoint`` knows no ``weights_only``, and every resume fails.
    """

    class TakesWeightsOnly(kind):  # type: ignore[misc]  # the class is known at run time only
        def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> Any:
            del weights_only  # torch's own default, true, is what it uses
            return super().load_checkpoint(path, map_location)

    return TakesWeightsOnly
