"""The data sets on S3 servers, ours and one that nobody here wrote: content, and what is really asked for."""

from __future__ import annotations

import functools
import io
import logging
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import replace

import pytest

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import IterableDataset, MapDataset, NotFoundError, ObjectChangedError, PrefixStream, StoreConfig
from torchbucket.store import open_store

KINDS = pytest.mark.parametrize("kind", [MapDataset, IterableDataset])
MIB = 1 << 20
BODIES = {
    "": b"",
    "a b/ü#?%25+&=.jpg": b"odd name",
    "dir/": b"",
    "dir//x": b"empty segment",
    "large.bin": bytes(range(256)) * (17 * MIB // 256),
    "small.bin": b"small",
}


@pytest.fixture(autouse=True)
def credentials(monkeypatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIADATASETS")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-for-loopback-only")


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"]) as running:
        yield running


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    ).create_bucket(Bucket="data")
    yield endpoint
    server.stop()


def config_of(endpoint: str, *, anonymous: bool = False, **settings: float) -> StoreConfig:
    return StoreConfig(endpoint=endpoint, region="us-east-1", anonymous=anonymous, **settings)


def counted_config(endpoint: str) -> StoreConfig:
    """Without second requests, for reads that a busy machine makes late: they would count."""
    return config_of(endpoint, hedge_share=0)


@pytest.fixture(params=["testbed", "testbed anonymous", "moto"])
def config(request) -> StoreConfig:
    server, *anonymous = request.param.split()
    found = request.getfixturevalue(server)
    return config_of(found if isinstance(found, str) else found.s3_endpoint, anonymous=bool(anonymous))


def filled(config: StoreConfig, bodies: dict[str, bytes]) -> str:
    """The address of a prefix of its own that holds the bodies."""
    prefix = f"{uuid.uuid4().hex}/"
    store = open_store("s3://data", config)
    for name, body in bodies.items():
        store.write(prefix + name, body)
    return f"s3://data/{prefix}"


@functools.cache
def all_bodies(endpoint: str) -> str:
    """The address of a prefix of a server that holds `BODIES`, which nobody changes."""
    return filled(config_of(endpoint), BODIES)


@KINDS
@pytest.mark.parametrize("fetch", ["whole", "lazy"])
def test_names_and_content_come_byte_for_byte(config, kind, fetch):
    uri = all_bodies(config.endpoint)
    dataset = kind.from_prefix(uri, config=config, transform=lambda reader: (reader.uri, reader.read()), fetch=fetch)
    expected = [(uri + name, BODIES[name]) for name in sorted(BODIES, key=str.encode)]
    assert list(dataset) == expected
    named = kind.from_objects(
        [address for address, _ in reversed(expected)],
        config=config,
        transform=lambda reader: (reader.uri, reader.read(), reader.size_bytes),
        fetch=fetch,
    )
    assert list(named) == [(address, body, len(body)) for address, body in reversed(expected)]


@KINDS
def test_a_missing_bucket_shows_at_construction(config, kind):
    with pytest.raises(NotFoundError, match="no-such-bucket"):
        kind.from_prefix("s3://no-such-bucket/x", config=config)


@KINDS
def test_an_object_overwritten_since_the_listing_is_an_error(config, kind):
    uri = filled(config, {"k": b"as listed"})
    dataset = kind.from_prefix(uri, config=config)
    open_store("s3://data", config).write(uri.removeprefix("s3://data/") + "k", b"longer than listed")
    with pytest.raises(ObjectChangedError, match=f"{uri}k"):
        list(dataset)


def test_one_listing_and_one_request_an_object(testbed):
    config = counted_config(testbed.s3_endpoint)
    uri = filled(config, {f"{index:02}": bytes(1000) for index in range(40)})
    testbed.reset_counts()
    dataset = MapDataset.from_prefix(uri, config=config)
    for _ in range(2):
        assert [len(sample) for sample in dataset.__getitems__(range(40))] == [1000] * 40
    counts = testbed.counts()["requests"]
    assert sum(counts.values()) == 1 + 80, counts


def test_a_stream_that_lists_while_it_reads_asks_for_pages_as_it_goes(testbed):
    config = replace(counted_config(testbed.s3_endpoint), list_page_size=10)
    uri = filled(config, {f"{index:02}": bytes([index]) for index in range(95)})
    testbed.reset_counts()
    samples = iter(PrefixStream.from_prefix(uri, config=config, prefetch_objects=3))
    lists = lambda: testbed.counts()["requests"].get("list_objects_v2", 0)  # noqa: E731
    assert next(samples) == bytes([0])
    assert 1 <= lists() <= 2, testbed.counts()
    assert [next(samples) for _ in range(40)] == [bytes([index]) for index in range(1, 41)]
    assert 5 <= lists() <= 6
    assert len(list(samples)) == 95 - 41
    assert lists() == 10
    assert sum(testbed.counts()["requests"].values()) == 10 + 95


def test_a_member_of_a_large_archive_costs_a_few_ranges(testbed):
    config = counted_config(testbed.s3_endpoint)
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for index in range(32):
            archive.writestr(f"{index}.bin", bytes([index]) * MIB)
    uri = filled(config, {"archive.zip": body.getvalue()})

    def transform(reader):
        with zipfile.ZipFile(reader) as archive:
            return archive.read("17.bin")

    dataset = MapDataset.from_prefix(uri, config=config, transform=transform, fetch="lazy")
    testbed.reset_counts()
    assert dataset[0] == bytes([17]) * MIB
    counts = testbed.counts()
    assert sum(counts["requests"].values()) <= 12
    assert counts["bytes_out"] < 4 * MIB


def test_closing_a_stream_stops_its_requests(testbed):
    config = counted_config(testbed.s3_endpoint)
    uri = filled(config, {f"{index:03}": bytes(1000) for index in range(300)})
    stream = iter(IterableDataset.from_prefix(uri, config=config, prefetch_objects=10))
    testbed.reset_counts()
    next(stream)
    stream.close()
    assert sum(testbed.counts()["requests"].values()) <= 11
