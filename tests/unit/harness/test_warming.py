"""A data set is read whole, once, before the first job."""

from __future__ import annotations

from pathlib import Path

import pytest

from bucketbench.clients.boto3 import make_client
from bucketbench.clients.protocol import Target
from bucketbench.scenarios.dataset.warming import warm
from buckettestbed.launch import launch_testbed

CONTENTS = {"a b+%.bin": b"x" * 1000, "deep/er/é": b"", "large": bytes(3 << 20)}


@pytest.mark.parametrize("tls", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_every_object_is_read_once(tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testbed")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testbed")
    with launch_testbed(buckets=["data"], tls=tls, directory=tmp_path) as testbed:
        target = Target(
            scheme="s3",
            bucket="data",
            prefix="set/",
            endpoint=testbed.s3_endpoint,
            region="us-east-1",
            path_style=True,
            anonymous=False,
            ca_bundle=str(testbed.ca_certificate) if tls else None,
        )
        client = make_client(target)
        for key, content in CONTENTS.items():
            client.put_object(Bucket="data", Key=f"set/{key}", Body=content)
        testbed.reset_counts()
        warm(target, CONTENTS)
        counts = testbed.counts()
        assert counts["requests"] == {"get_object": len(CONTENTS)}
        assert counts["bytes_out"] == sum(map(len, CONTENTS.values()))
        with pytest.raises(OSError, match="none before the first job was answered 404"):
            warm(target, ["none"])
