"""Lightning's checkpoints in a bucket: plugins for the ``Trainer``, and a ``ModelCheckpoint`` that knows buckets.

    trainer = Trainer(plugins=[BucketCheckpointIO(StoreConfig(region="eu-west-1"))])

Works with the package ``lightning`` and with ``pytorch_lightning``; see :mod:`torchbucket.lightning.package`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchbucket.lazy_names import loaded_when_used

if TYPE_CHECKING:
    from torchbucket.lightning.async_checkpoint_io import AsyncBucketCheckpointIO
    from torchbucket.lightning.checkpoint_io import BucketCheckpointIO
    from torchbucket.lightning.model_checkpoint import BucketModelCheckpoint

__all__ = ["AsyncBucketCheckpointIO", "BucketCheckpointIO", "BucketModelCheckpoint"]

__getattr__, __dir__ = loaded_when_used(
    __name__,
    {
        "AsyncBucketCheckpointIO": "torchbucket.lightning.async_checkpoint_io",
        "BucketCheckpointIO": "torchbucket.lightning.checkpoint_io",
        "BucketModelCheckpoint": "torchbucket.lightning.model_checkpoint",
    },
)
