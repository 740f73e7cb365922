"""What a simulation expects of a few ranks is what the testbed counts when they do it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from forked_programs import start

from bucketbench.clients.expected.transfers import NAME_BYTES, Transfers
from bucketbench.clients.protocol import Target
from bucketbench.clients.torchbucket import TorchbucketIterable, TorchbucketMap, store_config
from bucketbench.datagen.command import main as generate
from bucketbench.datagen.plan import planned_objects
from bucketbench.job.environment import TESTBED_REGION
from bucketbench.scale.checkpoints import CheckpointModel
from bucketbench.scale.composition import Composed, composed
from bucketbench.scale.simulation import model_of
from bucketbench.scale.steps import Operation
from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import StoreConfig, TarDataset
from torchbucket.listing import list_objects
from torchbucket.store import open_store

MIB = 1 << 20
RANKS = 2
PROGRAM = Path(__file__).with_name("placed_program.py")
IMPORTS = ("torch._dynamo", "torch.distributed.tensor", "bucketbench.clients.dcp.torchbucket")
# A second request for a late read is the only one that nobody can foresee.
OPTIONS = ("+client.options.part_size_bytes=5242880", "+client.options.hedge_share=0")
MODEL = ("checkpoint=transformer", "checkpoint.layers=1")
EQUAL = ("checkpoint=tensors", "checkpoint.tensors=7", "checkpoint.size=24MiB")
TARGETS = {"s3": "local", "gs": "local_gs"}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["bucketbench"], opaque_etags=True) as running:
        yield running


def target_of(testbed: RunningTestbed, scheme: str, prefix: str) -> Target:
    return Target(
        scheme=scheme,
        bucket="bucketbench",
        prefix=prefix,
        endpoint=testbed.s3_endpoint if scheme == "s3" else testbed.gcs_endpoint,
        region=TESTBED_REGION if scheme == "s3" else None,
        path_style=True,
        anonymous=True,
    )


def counted(testbed: RunningTestbed) -> dict[str, Any]:
    """What the testbed has counted since it was last asked."""
    counts = testbed.counts()
    testbed.reset_counts()
    assert counts["errors"].keys() <= {"404"}  # where nothing was to be found
    return counts


def agree(operation: Operation, counts: Mapping[str, Any], *, listings_apart: bool = False) -> None:
    """Every request is as expected, and the bytes but for those of listings and other answers without content."""
    requests = dict(counts["requests"])
    if listings_apart:
        requests = {name: count for name, count in requests.items() if not name.startswith("list_")}
    assert requests == operation.usage.requests
    for found, expected in (
        (counts["bytes_out"], operation.usage.received_bytes),
        (counts["bytes_in"], operation.usage.sent_bytes),
    ):
        assert expected <= found + 64 * 1024
        assert found <= expected * 1.002 + 64 * 1024


@pytest.mark.parametrize(
    ("scenario", "client", "scheme", "state"),
    [
        ("dcp_ddp", "torchbucket-once", "s3", MODEL),
        ("dcp_fsdp", "torchbucket", "s3", MODEL),
        pytest.param("dcp_fsdp", "torchbucket", "gs", MODEL, marks=pytest.mark.nightly),
        pytest.param("dcp_ddp", "torchbucket", "gs", MODEL, marks=pytest.mark.nightly),
        pytest.param("dcp_ddp", "torchbucket-once", "gs", EQUAL, marks=pytest.mark.nightly),
        pytest.param("dcp_simulated", "torchbucket", "s3", MODEL, marks=pytest.mark.nightly),
        pytest.param("dcp_simulated", "torchbucket", "gs", EQUAL, marks=pytest.mark.nightly),
    ],
)
def test_a_checkpoint_takes_what_is_expected(
    scenario: str, client: str, scheme: str, state: tuple[str, ...], testbed: RunningTestbed, tmp_path: Path
) -> None:
    of = composed(
        scenario,
        [f"target={TARGETS[scheme]}", f"client={client}", *state, *OPTIONS],
    )
    model = model_of(of.settings, of.scale)
    assert isinstance(model, CheckpointModel)
    save, load = model.operations(RANKS)
    prefix = f"{of.settings.prefix}{next(_numbers)}/"
    target = target_of(testbed, scheme, prefix)
    fields = {
        "placement": model.placement,
        "shapes": {name: list(shape) for name, shape in model.state(RANKS).tensors.items()},
        "options": of.settings.client.options,
        "target": {name: getattr(target, name) for name in target.__dataclass_fields__},
        "name": "bucketbench-step-0.pt",
    }
    found = {}
    for action in ("save", "load"):
        counted(testbed)
        rendezvous = tmp_path / action
        ranks = [
            start(PROGRAM, rank, RANKS, rendezvous, json.dumps({**fields, "action": action}), imports=IMPORTS)
            for rank in range(RANKS)
        ]
        for rank in ranks:
            ended = rank.wait()
            assert ended.returncode == 0, ended.stderr
            assert ended.stdout.splitlines()[-1] == "true"
        found[action] = counted(testbed)
    agree(save, found["save"])
    agree(load, found["load"])

    store = open_store(f"{scheme}://bucketbench", store_config(target))
    sizes = {info.key.removeprefix(f"{prefix}bucketbench-step-0.pt/"): info.size_bytes for info in store.list(prefix)}
    assert sizes[".metadata"] == pytest.approx(save.sizes["`.metadata`"], rel=0.02)
    assert sizes[".torchbucket.json"] == pytest.approx(save.sizes["manifest"], rel=0.05)
    shards = {name: size for name, size in sizes.items() if name.endswith(".distcp")}
    assert len(shards) == save.counts["files"]
    assert sum(shards.values()) == model.state(RANKS).stored_bytes


def epoch_of(scheme: str, *overrides: str) -> Composed:
    return composed("dataset", [f"target={TARGETS[scheme]}", "data.image_format=bytes", *overrides, *OPTIONS])


@pytest.mark.parametrize("scheme", TARGETS)
def test_an_epoch_of_objects_takes_what_is_expected(scheme: str, testbed: RunningTestbed) -> None:
    of = epoch_of(scheme, "data.num_samples=12", "data.sample_size=4MiB", "data.size_distribution=lognormal")
    settings: Any = of.settings
    target = target_of(testbed, scheme, f"objects-{scheme}/")
    store = open_store(f"{scheme}://bucketbench", store_config(target))
    objects = list(planned_objects(settings.dataset_spec))
    for one in objects:
        store.write(f"{target.prefix}{one.key}", bytes(one.size_bytes))
    sizes = sorted(one.size_bytes for one in objects)
    assert sizes[0] < 5 * MIB < sizes[-1]  # some are read in ranges, and some are not
    epoch = model_of(of.settings, of.scale).operations(1)[0]
    options = of.settings.client.options
    counted(testbed)
    by_map = TorchbucketMap(**options).dataset(target)
    assert sorted(len(content) for _, content in by_map.__getitems__(list(range(12)))) == sizes
    agree(epoch, counted(testbed), listings_apart=True)
    assert sorted(len(content) for _, content in TorchbucketIterable(**options).dataset(target)) == sizes
    agree(epoch, counted(testbed), listings_apart=True)


def test_an_epoch_of_shards_takes_what_is_expected(testbed: RunningTestbed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "dummy")
    size = ["--sample-size", "1MiB", "--image-format", "bytes", "-n", "30", "-j", "1", "--shard-size", "12MiB"]
    uri = "s3://bucketbench/shards/"
    assert generate([*size, "--uri", uri, "--endpoint", testbed.s3_endpoint]) == 0
    of = epoch_of("s3", "data.num_samples=30", "data.sample_size=1MiB", "scale.shard_size=12MiB")
    epoch = model_of(of.settings, of.scale).operations(1)[1]
    config = StoreConfig(endpoint=testbed.s3_endpoint, anonymous=True, **of.settings.client.options)
    counted(testbed)
    assert sum(1 for _ in TarDataset.from_prefix(uri, config=config)) == 30
    agree(epoch, counted(testbed), listings_apart=True)


@pytest.mark.parametrize("scheme", TARGETS)
@pytest.mark.parametrize("size_bytes", [1, 5 * MIB, 5 * MIB + 1, 8 * MIB, 23 * MIB])
def test_an_object_takes_what_is_expected(scheme: str, size_bytes: int, testbed: RunningTestbed) -> None:
    target = target_of(testbed, scheme, "single/")
    config = store_config(target, part_size_bytes=5 * MIB, hedge_share=0)
    transfers = Transfers(config=config, scheme=scheme)
    store = open_store(f"{scheme}://bucketbench", config)
    key = f"single/{scheme}-{size_bytes}"
    counted(testbed)
    store.write(key, bytes(size_bytes), if_absent=True)
    assert counted(testbed)["requests"] == transfers.write(size_bytes, on_condition=True)
    store.write(key, bytes(size_bytes))
    assert counted(testbed)["requests"] == transfers.write(size_bytes)
    assert len(store.read(key).data) == size_bytes
    assert counted(testbed)["requests"] == transfers.read_unknown(size_bytes)
    store.close()


@pytest.mark.parametrize("names", [1000, 12_500])
def test_a_listing_takes_about_what_is_expected(names: int, testbed: RunningTestbed) -> None:
    prefix = f"names-{names}/"
    testbed.put_objects("bucketbench", [(f"{prefix}{number:09}", 16) for number in range(names)])
    target = target_of(testbed, "s3", prefix)
    config = store_config(target, hedge_share=0)
    expected = Transfers(config=config, scheme="s3").list_ranges(names).total()
    store = open_store("s3://bucketbench", config)
    counted(testbed)
    assert len(list_objects(store, prefix)) == names
    found = counted(testbed)
    pages = -(-names // 1000)
    assert pages <= found["requests"]["list_objects_v2"] <= pages + pages // 16 + 81
    assert found["requests"]["list_objects_v2"] == pytest.approx(expected, rel=0 if pages == 1 else 0.25)
    assert found["bytes_out"] / names == pytest.approx(NAME_BYTES, rel=0.2)
