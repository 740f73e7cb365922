"""boto3, the AWS SDK: its paginator of ``list_objects_v2``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bucketbench.clients.boto3 import make_client
from bucketbench.clients.protocol import Target

__all__ = ["Boto3Pages"]


class Boto3Pages:
    """One page of 1,000 names after another, the most that S3 gives; there is no setting that lists in parallel."""

    def __init__(self) -> None:
        self._client: Any = None

    def names(self, target: Target) -> Iterator[tuple[str, int]]:
        """Every object of the target, in the order of its keys."""
        if self._client is None:
            self._client = make_client(target)
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=target.bucket, Prefix=target.prefix)
        for page in pages:
            for item in page.get("Contents", ()):
                yield item["Key"], item["Size"]
