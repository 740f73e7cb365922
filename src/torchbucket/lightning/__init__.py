"""Lightning's checkpoints in a bucket: plugins and strategies for the ``Trainer``, and a ``ModelCheckpoint`` for both.

    trainer = Trainer(plugins=[BucketCheckpointIO(StoreConfig(region="eu-west-1"))])

Works with the package ``lightning`` and with ``pytorch_lightning``: with the one that the program has imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchbucket.lazy_names import loaded_when_used

if TYPE_CHECKING:
    from torchbucket.lightning.async_checkpoint_io import AsyncBucketCheckpointIO
    from torchbucket.lightning.checkpoint_io import BucketCheckpointIO
    from torchbucket.lightning.model_checkpoint import BucketModelCheckpoint
    from torchbucket.lightning.strategies import BucketFSDPStrategy, BucketModelParallelStrategy

__all__ = [
    "AsyncBucketCheckpointIO",
    "BucketCheckpointIO",
    "BucketFSDPStrategy",
    "BucketModelCheckpoint",
    "BucketModelParallelStrategy",
]

__getattr__, __dir__ = loaded_when_used(
    __name__,
    {
        "AsyncBucketCheckpointIO": "torchbucket.lightning.async_checkpoint_io",
        "BucketCheckpointIO": "torchbucket.lightning.checkpoint_io",
        "BucketFSDPStrategy": "torchbucket.lightning.strategies",
        "BucketModelCheckpoint": "torchbucket.lightning.model_checkpoint",
        "BucketModelParallelStrategy": "torchbucket.lightning.strategies",
    },
)
