"""s3torchconnector, Amazon S3 Connector for PyTorch: its map and iterable data sets with each of its readers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args

from torch.utils.data import IterableDataset

from bucketbench.clients.objects import Sample
from bucketbench.clients.protocol import Target
from bucketbench.clients.tar_samples import MemberSample, is_shard, samples_of_stream
from bucketbench.clients.trust import trust_by_environment
from bucketbench.errors import ConfigurationError, UsageError

__all__ = [
    "DEFAULT_PART_BYTES",
    "DEFAULT_THROUGHPUT_TARGET_GBPS",
    "Reader",
    "S3TorchConnectorIterable",
    "S3TorchConnectorMap",
    "S3TorchConnectorTar",
    "checked_reader",
    "connection",
]

Reader = Literal["sequential", "range"]

# What S3ClientConfig itself has. Source: s3torchconnector 1.5, S3ClientConfig.
DEFAULT_THROUGHPUT_TARGET_GBPS: Final = 10.0
DEFAULT_PART_BYTES: Final = 8 * 1024 * 1024


def connection(
    target: Target,
    *,
    throughput_target_gbps: float = DEFAULT_THROUGHPUT_TARGET_GBPS,
    part_bytes: int = DEFAULT_PART_BYTES,
) -> dict[str, Any]:
    """What each of the library's classes takes: region, endpoint and the client's settings.

    Raises:
        UsageError: there is no region, neither in the target nor in the environment.
    """
    region = target.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None:
        raise UsageError("s3torchconnector finds no region by itself: set target.region, or AWS_REGION")
    # The library has no argument for it: its TLS stack reads this when its first client is made.
    trust_by_environment(target, "SSL_CERT_FILE")
    from s3torchconnector import S3ClientConfig

    return {
        "region": region,
        "endpoint": target.endpoint,
        "s3client_config": S3ClientConfig(
            throughput_target_gbps=throughput_target_gbps,
            part_size=part_bytes,
            force_path_style=target.path_style,
            unsigned=target.anonymous,
        ),
    }


def checked_reader(reader: Reader) -> Reader:
    """The reader that was asked for; raise ``ConfigurationError`` where the library has none of that name."""
    if reader not in get_args(Reader):
        raise ConfigurationError(f"client.options.reader must be one of {', '.join(get_args(Reader))}; got {reader!r}")
    return reader


class _Connector:
    """What both styles need: the readers, and the client's settings.

    Args:
        reader: ``sequential``, the library's default, or ``range``.
        throughput_target_gbps: what the library sizes its connection pool for; 10 is its own default.
    """

    def __init__(
        self,
        *,
        reader: Reader = "sequential",
        throughput_target_gbps: float = DEFAULT_THROUGHPUT_TARGET_GBPS,
    ) -> None:
        self._reader = checked_reader(reader)
        self._throughput_target_gbps = throughput_target_gbps

    def _arguments(self, target: Target) -> dict[str, Any]:
        settings = connection(target, throughput_target_gbps=self._throughput_target_gbps)
        from s3torchconnector import S3ReaderConstructor

        readers = {"sequential": S3ReaderConstructor.sequential, "range": S3ReaderConstructor.range_based}
        return {**settings, "transform": _Content(target.prefix), "reader_constructor": readers[self._reader]()}


class S3TorchConnectorMap(_Connector):
    """``S3MapDataset.from_prefix``. It reads one object after another in each worker."""

    def dataset(self, target: Target) -> Any:
        """The library's map data set over every object of the target, listed."""
        from s3torchconnector import S3MapDataset

        dataset = S3MapDataset.from_prefix(target.uri, **self._arguments(target))
        # It lists when its length is first asked for; asked for here, that is recorded as indexing, as for all others.
        if not len(dataset):
            raise UsageError(f"s3torchconnector lists no object under {target.uri}")
        return dataset


class S3TorchConnectorIterable(_Connector):
    """``S3IterableDataset.from_prefix``, sharded over workers by itself. Every worker lists in every epoch."""

    def dataset(self, target: Target) -> Any:
        """The library's iterable data set over every object of the target."""
        from s3torchconnector import S3IterableDataset

        return S3IterableDataset.from_prefix(target.uri, enable_sharding=True, **self._arguments(target))


class S3TorchConnectorTar(_Connector):
    """``S3IterableDataset`` over tar shards, whose transform reads one by Python's ``tarfile`` as it arrives.

    The library has no data set for shards: its transform gets a shard's reader, and returns the samples as they come.
    *Source:* s3torchconnector, README, "Using the data sets": the reader of an object is a file-like object, for the
    transform to read as it likes.
    """

    def dataset(self, target: Target) -> IterableDataset[MemberSample]:
        """The samples in every shard of the target, whole shards dealt out to workers by the library."""
        from s3torchconnector import S3IterableDataset

        arguments = {**self._arguments(target), "transform": _samples}
        return _Flat(S3IterableDataset.from_prefix(target.uri, enable_sharding=True, **arguments))


def _samples(reader: Any) -> Iterator[MemberSample]:
    return samples_of_stream(reader) if is_shard(reader.key) else iter(())


class _Flat(IterableDataset[MemberSample]):
    """The samples of a data set whose items are iterators over samples."""

    def __init__(self, shards: Any) -> None:
        self._shards = shards

    def __iter__(self) -> Iterator[MemberSample]:
        for shard in self._shards:
            yield from shard


class _Content:
    """The transform: the object's key, relative to the prefix, and all that its reader gives."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __call__(self, reader: Any) -> Sample:
        return reader.key.removeprefix(self._prefix), reader.read()
