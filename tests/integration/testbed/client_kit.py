"""boto3 for the tests of the server itself; the suite of clients is `tests/clients_conformance`."""

from __future__ import annotations

import io

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

from buckettestbed import RunningTestbed

BUCKET = "data"
_PART_BYTES = 8 << 20


class Boto3Client:
    """boto3 with its defaults: signed, CRC32 of every upload; path-style."""

    def __init__(self, testbed: RunningTestbed) -> None:
        self.s3 = boto3.client(
            "s3",
            endpoint_url=testbed.s3_endpoint,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            verify=str(testbed.ca_certificate) if testbed.ca_certificate else None,
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )

    def save(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    def save_large(self, key: str, body: bytes) -> None:
        transfer = TransferConfig(multipart_chunksize=_PART_BYTES, multipart_threshold=_PART_BYTES)
        self.s3.upload_fileobj(io.BytesIO(body), BUCKET, key, Config=transfer)

    def load(self, key: str) -> bytes:
        return self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
