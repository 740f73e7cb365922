"""Virtual-host addressing: the bucket's name stands in the host's."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from wire import Wire

from buckettestbed import RunningTestbed


def resolving_localhost(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a resolver that knows BUCKET.localhost, which not every resolver does."""

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        return original("127.0.0.1" if str(host).endswith(".localhost") else host, *args, **options)

    return getaddrinfo


def test_boto3_with_the_bucket_in_the_host(clients_testbed: RunningTestbed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolving_localhost(socket.getaddrinfo))
    s3 = boto3.client(
        "s3",
        endpoint_url=f"http://localhost:{urlsplit(clients_testbed.s3_endpoint).port}",
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "virtual"}, retries={"total_max_attempts": 1}),
    )
    with contextlib.closing(Wire(clients_testbed)) as wire:
        place = {"Bucket": wire.bucket, "Key": "virtual//key"}
        assert s3.generate_presigned_url("get_object", Params=place).startswith(f"http://{wire.bucket}.localhost:")
        s3.put_object(**place, Body=b"abc")
        assert wire.get("virtual//key") == s3.get_object(**place)["Body"].read() == b"abc"
        listed = s3.list_objects_v2(Bucket=wire.bucket, Prefix="virtual/")["Contents"]
        assert [(found["Key"], found["Size"]) for found in listed] == [("virtual//key", 3)]
