"""A testbed with one small data set, and every configured client: what the tests of this folder share."""

from __future__ import annotations

import functools
import importlib
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from bucketbench.clients.boto3 import make_client
from bucketbench.clients.protocol import Target
from buckettestbed.launch import RunningTestbed, launch_testbed

CLIENT_DIRECTORY = Path(__file__).parents[3] / "conf" / "dataset" / "client"
CLIENTS = sorted(path.stem for path in CLIENT_DIRECTORY.glob("*.yaml"))
BUCKET, PREFIX = "data", "sets/small/"


@functools.cache
def client_config(name: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((CLIENT_DIRECTORY / f"{name}.yaml").read_text())
    return config


@dataclass(frozen=True, kw_only=True)
class Case:
    """A client and a scheme that it serves."""

    name: str
    scheme: str

    def __str__(self) -> str:
        return f"{self.name}-{self.scheme}"

    @property
    def reads_shards(self) -> bool:
        return bool(client_config(self.name).get("samples") == "members")

    @property
    def is_local(self) -> bool:
        return self.name == "disk"


def cases() -> list[Case]:
    """Every client of objects that this environment's interpreter runs, on every scheme that it serves."""
    return [case for case in all_cases() if not case.reads_shards]


def all_cases() -> list[Case]:
    """Likewise, and those of the samples in tar shards."""
    configs = [client_config(name) for name in CLIENTS]
    return [
        Case(name=config["name"], scheme=scheme)
        for config in configs
        if config.get("environment") is None
        for scheme in config["schemes"]
    ]


def build_client(name: str) -> Any:
    config = client_config(name)
    module, _, attribute = config["_target_"].rpartition(".")
    return getattr(importlib.import_module(module), attribute)(**config["options"])


def contents() -> dict[str, bytes]:
    """Samples by relative key: ordinary ones, an empty one, and one above every client's part size."""
    random_bytes = random.Random(7).randbytes
    sizes = {f"{i:03d}.bin": 1000 + 7000 * i for i in range(20)}
    sizes |= {"empty.bin": 0, "large.bin": (9 << 20) + 1, "deep/er/é ü+%2F.bin": 100}
    return {key: random_bytes(size) for key, size in sizes.items()}


@dataclass(frozen=True, kw_only=True)
class Served:
    """A data set on a testbed."""

    testbed: RunningTestbed
    target: Target
    contents: Mapping[str, bytes]

    def target_of(self, scheme: str) -> Target:
        """The same place by one of the two protocols."""
        if scheme == "s3":
            return self.target
        endpoint = self.testbed.gcs_endpoint
        return replace(self.target, scheme="gs", endpoint=endpoint, region=None, anonymous=True)


@functools.cache
def _writer(target: Target) -> Any:
    return make_client(target)


def put(target: Target, contents: Mapping[str, bytes]) -> None:
    client = _writer(replace(target, prefix=""))
    for key, content in contents.items():
        client.put_object(Bucket=target.bucket, Key=target.prefix + key, Body=content)


@contextmanager
def serving(*, tls: bool, directory: Path) -> Iterator[Served]:
    samples = contents()
    local, certificates = (directory / f"a b+ü#%.{kind}" for kind in ("samples", "pem"))
    with launch_testbed(buckets=[BUCKET], tls=tls) as testbed:
        if testbed.ca_certificate is not None:
            shutil.copyfile(testbed.ca_certificate, certificates)
        target = Target(
            scheme="s3",
            bucket=BUCKET,
            prefix=PREFIX,
            endpoint=testbed.s3_endpoint,
            region="us-east-1",
            path_style=True,
            ca_bundle=str(certificates) if tls else None,
            local_directory=str(local),
        )
        put(target, samples)
        # Beside the prefix, and so close to it that only a listing by plain text leaves it out rightly.
        put(replace(target, prefix="sets/"), {"small.manifest.jsonl": b"{}", "smaller/x": b"no"})
        for key, content in samples.items():
            path = local / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield Served(testbed=testbed, target=target, contents=samples)
