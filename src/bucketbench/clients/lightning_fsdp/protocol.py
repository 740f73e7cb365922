"""What a client that saves and loads the checkpoints of a sharded Lightning training provides."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from bucketbench.clients.protocol import Target

__all__ = ["CopiesToHosts", "StrategyClient"]


class StrategyClient(Protocol):
    """A strategy that saves and loads checkpoints: a small class, built from its configuration's ``options``.

    Each rank builds one. A class whose strategy saves in the background sets ``saves_in_background = True``: the
    training is blocked until ``save_checkpoint`` returns, and the checkpoint is durable when the strategy's ``wait``
    has.
    """

    def strategy(self, target: Target, world_size: int) -> Any:
        """A ``ModelParallelStrategy``, or what does its work, for a model that is shared out over all ranks."""
        ...

    def root(self, target: Target) -> str:
        """What the paths of the checkpoints begin with, such as ``s3://bucket/runs/``."""
        ...

    def is_saved(self, target: Target, path: str) -> bool:
        """Whether a complete checkpoint is at a path; raises where that cannot be told. It is not measured."""
        ...

    def close(self) -> None:
        """End what it holds; nothing is called afterwards."""
        ...


@runtime_checkable
class CopiesToHosts(Protocol):
    """What a client has beside where each host has files of its own, which the others do not see.

    What is to be loaded is saved into the target's bucket, copied to every host, and removed from the bucket.
    """

    in_bucket: StrategyClient
    """Saves into the bucket what the client's strategy loads."""

    def copy_here(self, target: Target, key: str) -> None:
        """Copy a checkpoint to this host; each of its ranks calls this, and one of them does it."""
        ...
