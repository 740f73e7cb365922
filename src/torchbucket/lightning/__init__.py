"""Lightning's checkpoints in a bucket: plugins for the ``Trainer``, and a ``ModelCheckpoint`` that knows buckets.

    trainer = Trainer(plugins=[BucketCheckpointIO(StoreConfig(region="eu-west-1"))])

Works with the package ``lightning`` and with ``pytorch_lightning``; see :mod:`torchbucket.lightning.package`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchbucket.lightning.async_checkpoint_io import AsyncBucketCheckpointIO
    from torchbucket.lightning.checkpoint_io import BucketCheckpointIO
    from torchbucket.lightning.model_checkpoint import BucketModelCheckpoint

__all__ = ["AsyncBucketCheckpointIO", "BucketCheckpointIO", "BucketModelCheckpoint"]

_LOADED_WHEN_USED = {
    "AsyncBucketCheckpointIO": "torchbucket.lightning.async_checkpoint_io",
    "BucketCheckpointIO": "torchbucket.lightning.checkpoint_io",
    "BucketModelCheckpoint": "torchbucket.lightning.model_checkpoint",
}


def __getattr__(name: str) -> object:
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LOADED_WHEN_USED[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
