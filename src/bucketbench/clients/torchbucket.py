"""torchbucket's own data sets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torchbucket
from bucketbench.clients.objects import Sample
from bucketbench.clients.protocol import Target

__all__ = ["TorchbucketIterable", "TorchbucketMap", "store_config"]


def store_config(target: Target, **settings: Any) -> torchbucket.StoreConfig:
    """The settings for a target: torchbucket's defaults, but for what the target says and ``settings`` override."""
    return torchbucket.StoreConfig(
        region=target.region,
        endpoint=target.endpoint,
        path_style=target.path_style if target.scheme == "s3" else None,  # Cloud Storage has no other style
        anonymous=target.anonymous,
        ca_bundle=target.ca_bundle,
        **settings,
    )


class TorchbucketMap:
    """``MapDataset.from_prefix``, with ``ReadAheadBatchSampler``.

    Args:
        compose: whether small objects are joined by the server and read as one; on Cloud Storage.
        settings: fields of ``StoreConfig`` that the target does not give.
    """

    def __init__(self, *, compose: bool = False, **settings: Any) -> None:
        self._fetch = _fetch(compose=compose)
        self._settings = settings

    def dataset(self, target: Target) -> torchbucket.MapDataset[Sample]:
        """torchbucket's map data set over every object of the target."""
        return torchbucket.MapDataset.from_prefix(
            target.uri,
            config=store_config(target, **self._settings),
            transform=_Content(target.prefix),
            fetch=self._fetch,
        )

    def batch_sampler(self, batches: Iterable[list[int]]) -> torchbucket.ReadAheadBatchSampler:
        """The same batches, each with those that come after it."""
        return torchbucket.ReadAheadBatchSampler(batches)


class TorchbucketIterable:
    """``IterableDataset.from_prefix``.

    Args:
        compose: whether small objects are joined by the server and read as one; on Cloud Storage.
        settings: fields of ``StoreConfig`` that the target does not give.
    """

    def __init__(self, *, compose: bool = False, **settings: Any) -> None:
        self._fetch = _fetch(compose=compose)
        self._settings = settings

    def dataset(self, target: Target) -> torchbucket.IterableDataset[Sample]:
        """torchbucket's iterable data set over every object of the target."""
        return torchbucket.IterableDataset.from_prefix(
            target.uri,
            config=store_config(target, **self._settings),
            transform=_Content(target.prefix),
            fetch=self._fetch,
        )


def _fetch(*, compose: bool) -> Literal["whole"] | torchbucket.Compose:
    return torchbucket.Compose() if compose else "whole"


class _Content:
    """The transform: the object's key, relative to the prefix, and its whole content."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __call__(self, reader: torchbucket.ObjectReader) -> Sample:
        return reader.key.removeprefix(self._prefix), reader.read()
