"""What a client that saves and loads distributed checkpoints provides."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from bucketbench.clients.protocol import Target

__all__ = [
    "BackgroundSaver",
    "BringsSaver",
    "CopiesToHosts",
    "DistributedCheckpointClient",
    "DistributedStorage",
    "ReadsInGroup",
]


class DistributedStorage(Protocol):
    """The distributed checkpoints below the prefix of a target, as one rank reaches them."""

    def writer(self, name: str) -> Any:
        """A ``StorageWriter`` of ``torch.distributed.checkpoint`` for the checkpoint of that name."""
        ...

    def reader(self, name: str) -> Any:
        """A ``StorageReader`` for it."""
        ...

    def is_saved(self, name: str) -> bool:
        """Whether it is there, its metadata that is; raises where that cannot be told. It is not measured."""
        ...

    def remove(self, name: str) -> None:
        """Remove it, and all its files; one rank is asked, and it is not measured."""
        ...

    def close(self) -> None:
        """End connections and threads; nothing is called afterwards."""
        ...


@runtime_checkable
class ReadsInGroup(Protocol):
    """What a storage has beside where its reader must know which ranks load together."""

    def use_group(self, group: Any) -> None:
        """Take the process group that loads; None means all ranks."""
        ...


class BackgroundSaver(Protocol):
    """What saves in the background instead of ``dcp.async_save``, one checkpoint at a time."""

    def save(self, state_dict: dict[str, Any], storage_writer: Any) -> Any:
        """Begin a save; returns what has its future as ``upload_completion``. The state may change then."""
        ...

    def close(self) -> None:
        """End threads, and give memory back."""
        ...


@runtime_checkable
class BringsSaver(Protocol):
    """What a storage has beside where its library has a way of its own to save in the background."""

    def saver(self, *, process: bool, group: Any) -> BackgroundSaver:
        """Make one, in a process or a thread, for a process group; None where there is one rank."""
        ...


@runtime_checkable
class CopiesToHosts(Protocol):
    """What a storage has beside where each host has files of its own, which the others do not see.

    What is to be loaded is saved into the target's bucket, copied to every host, and removed from the bucket. Every
    rank calls ``remove`` then.
    """

    def bucket_writer(self, name: str) -> Any:
        """A ``StorageWriter`` for that checkpoint in the bucket."""
        ...

    def copy_here(self, name: str) -> None:
        """Copy it to this host; each of its ranks calls this, and one of them does it."""
        ...

    def remove_from_bucket(self, name: str) -> None:
        """Remove the bucket's; one rank is asked."""
        ...


class DistributedCheckpointClient(Protocol):
    """A way of keeping distributed checkpoints: a small class, built from the ``options`` of its configuration.

    Each rank builds one. A class may say ``async_checkpointer = "thread"`` or ``"process"``: ``dcp.async_save`` is then
    measured instead of ``dcp.save``, or its storage's own saver.
    """

    def storage(self, target: Target) -> DistributedStorage:
        """The checkpoints below the target's prefix."""
        ...
