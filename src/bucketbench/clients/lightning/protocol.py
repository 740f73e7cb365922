"""What a client that saves and loads the checkpoints of a Lightning trainer provides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from bucketbench.clients.protocol import Target

if TYPE_CHECKING:
    from lightning.pytorch.plugins.io import CheckpointIO

__all__ = ["LightningClient"]


class LightningClient(Protocol):
    """A way of saving and loading a trainer's checkpoints: a small class, built from its configuration's ``options``.

    A class whose ``CheckpointIO`` saves in the background sets ``saves_in_background = True``: the training is blocked
    until ``save_checkpoint`` returns, and the checkpoint is durable when ``teardown`` has, after which the same
    ``CheckpointIO`` saves again, as Lightning asks of its own.

    A class that saves local files sets ``saves_local_files = True``: the trainer is given paths below
    ``Target.local_directory``, which is empty when the job begins and removed when it ends.

    A client that can save with and without uploads in parts has an option ``multipart``, true by default; the scenario
    sets it to false where ``disable_multipart`` asks for that.
    """

    def checkpoint_io(self, target: Target) -> CheckpointIO | None:
        """The plugin for ``Trainer(plugins=...)``, None for what Lightning does without one."""
        ...
