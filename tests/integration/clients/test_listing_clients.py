"""Every configured client of the listing scenario lists every name, with its size and once, on what it serves."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bucketbench.clients.protocol import Target
from bucketbench.scenarios.listing.names import SHAPES, NamesSpec
from buckettestbed.launch import RunningTestbed, launch_testbed

CONFIGS = [
    yaml.safe_load(path.read_text())
    for path in sorted((Path(__file__).parents[3] / "conf" / "listing" / "client").glob("*.yaml"))
]
# Those with an interpreter of their own are run by a sweep, as tests/integration/harness has it.
CASES = [
    pytest.param(config, scheme, id=f"{config['name']}-{scheme}")
    for config in CONFIGS
    if config.get("environment") is None
    for scheme in config["schemes"]
]
BUCKET = "names"


def shapes_of(testbed: RunningTestbed) -> Iterable[str]:
    """Over TLS the same answers arrive: those of one shape show that it carries them."""
    return SHAPES if testbed.ca_certificate is None else ("unicode",)


@pytest.fixture(scope="module", params=[False, True], ids=["http", "tls"])
def testbed(request: pytest.FixtureRequest) -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=[BUCKET], tls=request.param) as testbed:
        for shape in shapes_of(testbed):
            testbed.put_objects(BUCKET, NamesSpec(count=1200, shape=shape, max_size_bytes=3).objects(f"{shape}/"))
            # Beside the prefix, and so close to it that only a listing by plain text leaves it out rightly.
            testbed.put_objects(BUCKET, [(f"{shape}.x", 1), (f"{shape}0/x", 1)])
        yield testbed


@pytest.fixture(autouse=True)
def trust_is_not_carried_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what a client sets in the environment for its own process, which a job's is."""
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_REGION", "us-east-1")


def target_of(testbed: RunningTestbed, scheme: str, prefix: str) -> Target:
    is_s3 = scheme == "s3"
    return Target(
        scheme=scheme,
        bucket=BUCKET,
        prefix=prefix,
        endpoint=testbed.s3_endpoint if is_s3 else testbed.gcs_endpoint,
        region="us-east-1" if is_s3 else None,
        path_style=True,
        anonymous=not is_s3,
        ca_bundle=str(testbed.ca_certificate) if testbed.ca_certificate else None,
    )


def built(config: dict[str, Any]) -> Any:
    module, _, name = config["_target_"].rpartition(".")
    return getattr(importlib.import_module(module), name)(**config["options"])


@pytest.mark.parametrize(("config", "scheme"), CASES)
def test_every_name_with_its_size_and_once(testbed: RunningTestbed, config: dict[str, Any], scheme: str) -> None:
    client = built(config)
    for shape in shapes_of(testbed):
        prefix = f"{shape}/"
        expected = sorted(NamesSpec(count=1200, shape=shape, max_size_bytes=3).objects(prefix))
        assert sorted(client.names(target_of(testbed, scheme, prefix))) == expected, shape


@pytest.mark.parametrize(("config", "scheme"), CASES)
def test_each_call_lists_anew(testbed: RunningTestbed, config: dict[str, Any], scheme: str) -> None:
    client, prefix = built(config), f"fresh-{config['name']}-{scheme}-{os.getpid()}/"
    target = target_of(testbed, scheme, prefix)
    for count in (1, 2):
        testbed.put_objects(BUCKET, [(f"{prefix}{count}", count)])
        assert sorted(client.names(target)) == [(f"{prefix}{number}", number) for number in range(1, count + 1)]
