"""s3torchconnector, Amazon S3 Connector for PyTorch: ``S3LightningCheckpoint``."""

from __future__ import annotations

from typing import Any

from bucketbench.clients.protocol import Target
from bucketbench.clients.s3torchconnector import connection

__all__ = ["S3TorchConnector"]


class S3TorchConnector:
    """``S3LightningCheckpoint``, every setting at its default."""

    def checkpoint_io(self, target: Target) -> Any:
        """The plugin."""
        from s3torchconnector.lightning import S3LightningCheckpoint

        return S3LightningCheckpoint(**connection(target))
