"""s3torchconnector, Amazon's connector for PyTorch: the listing that its data sets make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bucketbench.clients.protocol import Target
from bucketbench.clients.s3torchconnector import connection

__all__ = ["S3TorchConnectorStream"]


class S3TorchConnectorStream:
    """``S3Client.list_objects``: what ``S3MapDataset.from_prefix`` and ``S3IterableDataset`` list by, a page at a time.

    *Source:* s3torchconnector 1.5, ``_s3dataset_common.get_objects_from_prefix``. The client's class has no public
    name of its own.
    """

    def __init__(self) -> None:
        self._client: Any = None

    def names(self, target: Target) -> Iterator[tuple[str, int]]:
        """Every object of the target, in the order of its keys."""
        if self._client is None:
            self._client = _make_client(target)
        for page in self._client.list_objects(target.bucket, target.prefix):
            for info in page.object_info:
                yield info.key, info.size


def _make_client(target: Target) -> Any:
    settings = connection(target)
    from s3torchconnector._s3client import S3Client

    return S3Client(**settings)
