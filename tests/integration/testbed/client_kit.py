"""The four clients as one shape, so that each does the same work: save, load, ranged read, listing, large upload."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import boto3
import obstore
import s3fs
from botocore.config import Config
from obstore.store import S3Store
from s3torchconnector import S3ClientConfig
from s3torchconnector._s3client import S3Client

from bucketbench.testbed import RunningTestbed

BUCKET = "data"
PART_BYTES = 8 << 20


class Boto3Client:
    """boto3 with its defaults: signed, CRC32 of every upload."""

    name = "boto3"

    def __init__(self, testbed: RunningTestbed, *, addressing: str = "path") -> None:
        self.s3 = boto3.client(
            "s3",
            endpoint_url=testbed.s3_endpoint,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            verify=str(testbed.ca_certificate) if testbed.ca_certificate else None,
            config=Config(s3={"addressing_style": addressing}, retries={"total_max_attempts": 1}),
        )

    def save(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    def load(self, key: str) -> bytes:
        return self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def load_range(self, key: str, start: int, stop: int) -> bytes:
        return self.s3.get_object(Bucket=BUCKET, Key=key, Range=f"bytes={start}-{stop - 1}")["Body"].read()

    def list(self, prefix: str) -> list[tuple[str, int]]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [(found["Key"], found["Size"]) for page in pages for found in page.get("Contents", [])]

    def save_large(self, key: str, body: bytes) -> None:
        transfer = boto3.s3.transfer.TransferConfig(multipart_chunksize=PART_BYTES, multipart_threshold=PART_BYTES)
        self.s3.upload_fileobj(io.BytesIO(body), BUCKET, key, Config=transfer)


class ObstoreClient:
    """obstore with its defaults, path-style."""

    name = "obstore"

    def __init__(self, testbed: RunningTestbed) -> None:
        self.store = S3Store(
            BUCKET,
            endpoint=testbed.s3_endpoint,
            region="us-east-1",
            access_key_id="key",
            secret_access_key="secret",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )

    def save(self, key: str, body: bytes) -> None:
        obstore.put(self.store, key, body, use_multipart=False)

    def load(self, key: str) -> bytes:
        return bytes(obstore.get(self.store, key).bytes())

    def load_range(self, key: str, start: int, stop: int) -> bytes:
        return bytes(obstore.get_range(self.store, key, start=start, end=stop))

    def list(self, prefix: str) -> list[tuple[str, int]]:
        return [(found["path"], found["size"]) for page in obstore.list(self.store, prefix) for found in page]

    def save_large(self, key: str, body: bytes) -> None:
        obstore.put(self.store, key, body, use_multipart=True, chunk_size=PART_BYTES)


class ConnectorClient:
    """s3torchconnector's client: uploads are aws-chunked with a trailing CRC32C."""

    name = "s3torchconnector"

    def __init__(self, testbed: RunningTestbed) -> None:
        self.s3 = S3Client(
            "us-east-1",
            endpoint=testbed.s3_endpoint,
            s3client_config=S3ClientConfig(force_path_style=True, part_size=PART_BYTES, max_attempts=1),
        )

    def save(self, key: str, body: bytes) -> None:
        writer = self.s3.put_object(BUCKET, key)
        writer.write(body)
        writer.close()

    def load(self, key: str) -> bytes:
        return self.s3.get_object(BUCKET, key).read()

    def load_range(self, key: str, start: int, stop: int) -> bytes:
        reader = self.s3.get_object(BUCKET, key)
        reader.seek(start)
        return reader.read(stop - start)

    def list(self, prefix: str) -> list[tuple[str, int]]:
        pages = self.s3.list_objects(BUCKET, prefix)
        return [(found.key, found.size) for page in pages for found in page.object_info]

    def save_large(self, key: str, body: bytes) -> None:
        self.save(key, body)


class S3fsClient:
    """s3fs with its defaults, path-style."""

    name = "s3fs"

    def __init__(self, testbed: RunningTestbed) -> None:
        self.files = s3fs.S3FileSystem(
            key="key",
            secret="secret",
            client_kwargs={"endpoint_url": testbed.s3_endpoint, "region_name": "us-east-1"},
            config_kwargs={"s3": {"addressing_style": "path"}},
            skip_instance_cache=True,
            use_listings_cache=False,
        )

    def save(self, key: str, body: bytes) -> None:
        self.files.pipe_file(f"{BUCKET}/{key}", body)

    def load(self, key: str) -> bytes:
        return self.files.cat_file(f"{BUCKET}/{key}")

    def load_range(self, key: str, start: int, stop: int) -> bytes:
        return self.files.cat_file(f"{BUCKET}/{key}", start=start, end=stop)

    def list(self, prefix: str) -> list[tuple[str, int]]:
        found = self.files.find(f"{BUCKET}/{prefix}", detail=True)
        return [(name.removeprefix(BUCKET + "/"), detail["size"]) for name, detail in found.items()]

    def save_large(self, key: str, body: bytes) -> None:
        with self.files.open(f"{BUCKET}/{key}", "wb", block_size=PART_BYTES) as file:
            for start in range(0, len(body), PART_BYTES):
                file.write(body[start : start + PART_BYTES])


Client = Boto3Client | ObstoreClient | ConnectorClient | S3fsClient
CLIENTS: dict[str, Callable[[RunningTestbed], Client]] = {
    kind.name: kind for kind in (Boto3Client, ObstoreClient, ConnectorClient, S3fsClient)
}


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Sets environment variables for as long as the block lasts."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
