"""Request rates as real clients meet them: refused as the provider does, tried again, counted."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import boto3
import obstore
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from google.api_core.exceptions import TooManyRequests
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from obstore.store import S3Store

from buckettestbed import RunningTestbed, launch_testbed

BUCKET = "rates"


@pytest.fixture(scope="module")
def running() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=[BUCKET]) as testbed:
        client = s3_client(testbed, attempts=1)
        for number in range(20):
            client.put_object(Bucket=BUCKET, Key=f"a/{number}", Body=b"content")
        yield testbed


@pytest.fixture
def testbed(running: RunningTestbed) -> Iterator[RunningTestbed]:
    running.reset_counts()
    yield running
    running.set_network({})


def s3_client(testbed: RunningTestbed, *, attempts: int) -> boto3.client:
    return boto3.client(
        "s3",
        endpoint_url=testbed.s3_endpoint,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": attempts, "mode": "standard"}),
    )


def test_boto3_sees_slow_down(testbed: RunningTestbed) -> None:
    client = s3_client(testbed, attempts=1)
    testbed.set_network({"reads_per_s": 1, "writes_per_s": 1})
    # Several of each, of which on a busy machine the second may come only when it is granted again.
    with pytest.raises(ClientError, match="SlowDown") as refused:
        for _ in range(20):
            client.get_object(Bucket=BUCKET, Key="a/1")["Body"].read()
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    with pytest.raises(ClientError, match="SlowDown"):
        for _ in range(20):
            client.put_object(Bucket=BUCKET, Key="a/large", Body=bytes(1 << 20))
    client.put_object(Bucket=BUCKET, Key="b/1", Body=b"another prefix")
    assert testbed.counts()["errors"] == {"503": 2}


@pytest.mark.nightly
def test_boto3_tries_again_until_it_may(testbed: RunningTestbed) -> None:
    client = s3_client(testbed, attempts=10)
    testbed.set_network({"reads_per_s": 1})
    with ThreadPoolExecutor(4) as pool:
        bodies = list(
            pool.map(lambda number: client.get_object(Bucket=BUCKET, Key=f"a/{number}")["Body"].read(), range(7))
        )
    assert bodies == [b"content"] * 7
    counts = testbed.counts()
    assert counts["errors"]["503"] >= 1
    assert counts["requests"]["get_object"] == 7 + counts["errors"]["503"]


def test_obstore_tries_again_until_it_may(testbed: RunningTestbed) -> None:
    store = S3Store(
        BUCKET,
        endpoint=testbed.s3_endpoint,
        region="us-east-1",
        skip_signature=True,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    testbed.set_network({"reads_per_s": 4, "first_byte_s": 0.001})
    bodies = [bytes(obstore.get(store, f"a/{number}").bytes()) for number in range(7)]
    assert bodies == [b"content"] * 7
    assert testbed.counts()["errors"]["503"] >= 1


@pytest.mark.nightly
def test_google_cloud_storage_sees_429_and_tries_again(testbed: RunningTestbed) -> None:
    client = storage.Client(
        project="testbed",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": testbed.gcs_endpoint},
    )
    bucket = client.bucket(BUCKET)
    testbed.set_network({"reads_per_s": 1})
    with pytest.raises(TooManyRequests) as refused:
        for _ in range(20):
            bucket.blob("a/0").download_as_bytes(retry=None)
    assert refused.value.code == 429
    assert all(bucket.blob("a/0").download_as_bytes() == b"content" for _ in range(6))  # By the client's own policy.
    assert testbed.counts()["errors"]["429"] >= 2
