"""webdataset, which reads tar shards from the output of a program: curl, or the provider's own command line tool."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, get_args

from torch.utils.data import IterableDataset

from bucketbench.clients.addresses import addresses_of, headers_of
from bucketbench.clients.boto3 import list_keys, make_client
from bucketbench.clients.protocol import Target
from bucketbench.clients.tar_samples import MemberSample, is_shard
from bucketbench.clients.trust import trust_by_environment
from bucketbench.errors import ConfigurationError, UsageError

__all__ = ["WebDataset"]

Program = Literal["curl", "aws"]

_HEADER_VARIABLE: Final = "BUCKETBENCH_REQUEST_HEADER"


class WebDataset:
    """``wds.WebDataset`` over the target's shards, whole shards dealt out by its own splitters.

    *Source:* webdataset, README, "Dependencies" and ``webdataset.gopen``: an ``http`` or ``https`` address is read by
    curl, anything else by a ``pipe:`` with the provider's command line tool, such as ``aws s3 cp``.

    Args:
        program: ``curl`` reads addresses, presigned ones on S3; ``aws`` runs ``aws s3 cp`` for each shard.
        decode: whether its pipeline decodes each sample, by ``decode("torchrgb8")``, so that tensors and labels are
            delivered.
    """

    def __init__(self, *, program: Program = "curl", decode: bool = False) -> None:
        if program not in get_args(Program):
            raise ConfigurationError(
                f"client.options.program must be one of {', '.join(get_args(Program))}; got {program!r}"
            )
        self._program = program
        self._decode = decode

    def dataset(self, target: Target) -> IterableDataset[Any]:
        """The samples in every shard of the target.

        Raises:
            UsageError: there is no shard, or the program is not installed.
        """
        if shutil.which(self._program) is None:
            raise UsageError(f"webdataset reads by the program {self._program}, which this machine lacks: install it")
        urls = _curl_urls(target) if self._program == "curl" else _aws_urls(target)
        if not urls:
            raise UsageError(f"there is no .tar object under {target.uri}: correct target.bucket or data.prefix")
        return _Samples(urls, decode=self._decode)


def _curl_urls(target: Target) -> list[str]:
    trust_by_environment(target, "CURL_CA_BUNDLE")
    urls = [address.url for key, address in addresses_of(target).items() if is_shard(key)]
    headers = headers_of(target)
    if not headers:
        return urls
    # By the environment and curl's standard input, so that no list of processes shows an access token.
    (os.environ[_HEADER_VARIABLE],) = headers
    told = f'printf \'header = "%s"\' "${_HEADER_VARIABLE}" | curl --config - -s -f -L'
    return [f"pipe:{told} {shlex.quote(url)}" for url in urls]


def _aws_urls(target: Target) -> list[str]:
    told = ["aws", "s3", "cp", "--only-show-errors"]
    told += [] if target.endpoint is None else ["--endpoint-url", target.endpoint]
    told += [] if target.region is None else ["--region", target.region]
    told += [] if target.ca_bundle is None else ["--ca-bundle", target.ca_bundle]
    told += ["--no-sign-request"] if target.anonymous else []
    keys = list_keys(make_client(target), target)
    return [f"pipe:{shlex.join([*told, f's3://{target.bucket}/{key}', '-'])}" for key in keys if is_shard(key)]


class _Samples(IterableDataset[Any]):
    """The library's pipeline, built where it is iterated: what it consists of cannot be sent to a spawned worker."""

    def __init__(self, urls: Sequence[str], *, decode: bool) -> None:
        self._urls = list(urls)
        self._decode = decode

    def __iter__(self) -> Iterator[Any]:
        import webdataset as wds  # type: ignore[import-untyped]  # it has stubs, and no mark for them

        pipeline = wds.WebDataset(self._urls, shardshuffle=False, nodesplitter=wds.split_by_node)
        if self._decode:
            yield from pipeline.decode("torchrgb8").to_tuple("__key__", "jpg;jpeg;png", "cls")
            return
        for sample in pipeline:
            yield _members(sample)


def _members(sample: dict[str, Any]) -> MemberSample:
    return sample["__key__"], {name: content for name, content in sample.items() if not name.startswith("__")}
