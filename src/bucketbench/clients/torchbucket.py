"""torchbucket's own data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, Literal

import torchbucket
from bucketbench.clients.objects import Sample
from bucketbench.clients.protocol import Target
from bucketbench.clients.tar_samples import MemberSample, decoded_sample
from bucketbench.errors import ConfigurationError
from bucketbench.job.options import no_such_option

__all__ = ["TorchbucketIterable", "TorchbucketMap", "TorchbucketTar", "checked_settings", "store_config"]


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


_OF_TARGET: Final = ("region", "endpoint", "path_style", "anonymous", "ca_bundle")


def checked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a client that are fields of ``StoreConfig``.

    Raises:
        ConfigurationError: one is none.
        ConfigError: one has a value that cannot be used.
    """
    known = [field.name for field in fields(torchbucket.StoreConfig) if field.name not in _OF_TARGET]
    for name in settings:
        if name not in known:
            raise ConfigurationError(no_such_option(name, known))
    torchbucket.StoreConfig(**settings)
    return dict(settings)


class TorchbucketMap:
    """``MapDataset.from_prefix``, with ``ReadAheadBatchSampler``.

    Args:
        compose: whether small objects are joined by the server and read as one; on Cloud Storage.
        settings: fields of ``StoreConfig`` that the target does not give.
    """

    def __init__(self, *, compose: bool = False, **settings: Any) -> None:
        self._fetch = _fetch(compose=compose)
        self.expects = "compose" if compose else None
        self._settings = checked_settings(settings)

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
        self.expects = "compose" if compose else None
        self._settings = checked_settings(settings)

    def dataset(self, target: Target) -> torchbucket.IterableDataset[Sample]:
        """torchbucket's iterable data set over every object of the target."""
        return torchbucket.IterableDataset.from_prefix(
            target.uri,
            config=store_config(target, **self._settings),
            transform=_Content(target.prefix),
            fetch=self._fetch,
        )


class TorchbucketTar:
    """``TarDataset.from_prefix``: the samples in the tar shards under the prefix.

    Args:
        decode: whether its transform decodes the image of each sample, so that tensors and labels are delivered.
        settings: fields of ``StoreConfig`` that the target does not give.
    """

    def __init__(self, *, decode: bool = False, **settings: Any) -> None:
        self._transform = _decoded if decode else _members
        self._settings = checked_settings(settings)

    def dataset(self, target: Target) -> torchbucket.TarDataset[Any]:
        """torchbucket's data set over the shards of the target."""
        return torchbucket.TarDataset.from_prefix(
            target.uri, config=store_config(target, **self._settings), transform=self._transform
        )


def _members(sample: torchbucket.TarSample) -> MemberSample:
    return sample.key, dict(sample)


def _decoded(sample: torchbucket.TarSample) -> tuple[str, Any, int]:
    return decoded_sample((sample.key, {extension: sample.view(extension) for extension in sample}))


def _fetch(*, compose: bool) -> Literal["whole"] | torchbucket.Compose:
    return torchbucket.Compose() if compose else "whole"


class _Content:
    """The transform: the object's key, relative to the prefix, and its whole content."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __call__(self, reader: torchbucket.ObjectReader) -> Sample:
        return reader.key.removeprefix(self._prefix), reader.read()
