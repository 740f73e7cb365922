"""What a client that saves and loads checkpoints provides."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from bucketbench.clients.protocol import Target

__all__ = ["BackgroundSave", "CheckpointClient", "Checkpoints", "FindsSaves", "LoadsInPlace", "SavesInBackground"]


class Checkpoints(Protocol):
    """The checkpoints below the prefix of a target.

    It makes its connections when it is made or first used, and keeps them for the next checkpoint. Whatever fails
    raises: the job has failed then.
    """

    def save(self, state: Any, key: str) -> None:
        """Save a state; returns once the object is durable.

        Args:
            state: what ``torch.save`` takes.
            key: relative to the target's prefix.
        """
        ...

    def load(self, key: str) -> Any:
        """Load what was saved, as ``torch.load`` with ``weights_only=True`` gives it, into memory of its own."""
        ...

    def remove(self, key: str) -> None:
        """Remove a checkpoint that was saved. It is not measured: it keeps a job from filling the bucket."""
        ...

    def close(self) -> None:
        """End connections and threads; nothing is called afterwards."""
        ...


class BackgroundSave(Protocol):
    """A save that goes on while the training does."""

    def result(self) -> object:
        """Wait until the object is durable, or raise what made the save fail."""
        ...


@runtime_checkable
class SavesInBackground(Protocol):
    """What checkpoints provide beside ``save`` where the client saves in the background.

    ``save_async`` is then measured instead of ``save``: the training is blocked until it returns, and the object is
    durable when the result's ``result`` does. The state may change as soon as ``save_async`` has returned.
    """

    def save_async(self, state: Any, key: str) -> BackgroundSave:
        """Begin to save a state."""
        ...


@runtime_checkable
class LoadsInPlace(Protocol):
    """What checkpoints provide beside ``load`` where a state is loaded into memory that the program has already."""

    def make_room(self) -> None:
        """Have that memory ready, holding something else; it is called before each load, and not measured."""
        ...


@runtime_checkable
class FindsSaves(Protocol):
    """What checkpoints provide beside ``load`` where one may be loaded that another job has saved."""

    def is_saved(self, key: str) -> bool:
        """Whether a complete checkpoint is there; raises where that cannot be told."""
        ...

    def save_for_loads(self, state: Any, key: str) -> None:
        """Save what is only to be loaded. It is not measured."""
        ...


class CheckpointClient(Protocol):
    """A way of saving and loading checkpoints: a small class, built from the ``options`` of its configuration.

    A client that can save with and without uploads in parts has an option ``multipart``, true by default; the scenario
    sets it to false where ``disable_multipart`` asks for that.

    A client that keeps checkpoints as local files finds a directory for them in ``Target.local_directory``, which is
    empty when the job begins and removed when it ends.
    """

    def checkpoints(self, target: Target) -> Checkpoints:
        """The checkpoints below the target's prefix."""
        ...
