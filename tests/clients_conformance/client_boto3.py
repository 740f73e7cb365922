"""boto3 with its defaults: signed, CRC32 of every upload; one attempt, so that a refusal is told at once."""

from __future__ import annotations

import base64
import functools
import io
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import boto3
import botocore.exceptions
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from client_shape import PART_BYTES, Client, Described, Place

_TRANSFER = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES)


@functools.lru_cache(maxsize=4)
def _made(endpoint: str, ca_certificate: Path | None) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        verify=str(ca_certificate) if ca_certificate else None,
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )


class Boto3(Client):
    name = "boto3"
    lacks: ClassVar = {
        "move": "S3 has no rename, and boto3 makes up none",
        "compose": "S3 joins objects only as parts of an upload",
        "stream": "boto3 uploads from a file that it reads",
    }
    errors: ClassVar = {
        "missing": (botocore.exceptions.ClientError, "NoSuchKey"),
        "no bucket": (botocore.exceptions.ClientError, "NoSuchBucket"),
        "range": (botocore.exceptions.ClientError, "InvalidRange"),
        "exists": (botocore.exceptions.ClientError, "PreconditionFailed"),
        "condition": (botocore.exceptions.ClientError, "PreconditionFailed"),
        "checksum": (botocore.exceptions.ClientError, "BadDigest"),
        "name": (botocore.exceptions.ClientError, "KeyTooLongError"),
        "certificate": (botocore.exceptions.SSLError, "CERTIFICATE_VERIFY_FAILED"),
    }

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.s3 = _made(place.s3_endpoint, place.ca_certificate)

    def save(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    def load(self, key: str) -> bytes:
        return self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def save_large(self, key: str, body: bytes) -> None:
        self.s3.upload_fileobj(io.BytesIO(body), self.bucket, key, Config=_TRANSFER)

    def abandon(self, key: str, body: bytes) -> None:
        upload_id = self.s3.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]
        self.s3.upload_part(Bucket=self.bucket, Key=key, UploadId=upload_id, PartNumber=1, Body=body[:PART_BYTES])
        self.s3.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload_id)

    def size(self, key: str) -> int:
        return self.s3.head_object(Bucket=self.bucket, Key=key)["ContentLength"]

    def delete(self, key: str) -> None:
        self.s3.delete_object(Bucket=self.bucket, Key=key)

    def delete_many(self, keys: Sequence[str]) -> None:
        answer = self.s3.delete_objects(Bucket=self.bucket, Delete={"Objects": [{"Key": key} for key in keys]})
        assert not answer.get("Errors"), answer["Errors"]

    def load_range(self, key: str, start: int, stop: int) -> bytes:
        return self.s3.get_object(Bucket=self.bucket, Key=key, Range=f"bytes={start}-{stop - 1}")["Body"].read()

    def load_tail(self, key: str, length_bytes: int) -> bytes:
        return self.s3.get_object(Bucket=self.bucket, Key=key, Range=f"bytes=-{length_bytes}")["Body"].read()

    def listing(self, prefix: str) -> list[tuple[str, int]]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [(found["Key"], found["Size"]) for page in pages for found in page.get("Contents", [])]

    def list_folder(self, prefix: str) -> tuple[list[str], list[str]]:
        page = self.s3.list_objects_v2(Bucket=self.bucket, Prefix=prefix, Delimiter="/")
        names = [found["Key"] for found in page.get("Contents", [])]
        return names, [found["Prefix"] for found in page.get("CommonPrefixes", [])]

    def list_after(self, name: str) -> list[str]:
        page = self.s3.list_objects_v2(Bucket=self.bucket, StartAfter=name)
        return [found["Key"] for found in page.get("Contents", [])]

    def copy(self, source: str, target: str) -> None:
        self.s3.copy_object(Bucket=self.bucket, Key=target, CopySource={"Bucket": self.bucket, "Key": source})

    def version(self, key: str) -> str:
        return self.s3.head_object(Bucket=self.bucket, Key=key)["ETag"]

    def create(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, IfNoneMatch="*")

    def replace(self, key: str, body: bytes, version: str) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, IfMatch=version)

    def load_version(self, key: str, version: str) -> bytes:
        return self.s3.get_object(Bucket=self.bucket, Key=key, IfMatch=version)["Body"].read()

    def save_described(self, key: str, body: bytes, described: Described) -> None:
        self.s3.put_object(
            Bucket=self.bucket,
            Key=key,
            Body=body,
            ContentType=described.content_type,
            Metadata=dict(described.metadata),
        )

    def described(self, key: str) -> Described:
        found = self.s3.head_object(Bucket=self.bucket, Key=key)
        return Described(content_type=found["ContentType"], metadata=found["Metadata"])

    def save_mislabelled(self, key: str, body: bytes, labelled: bytes) -> None:
        checksum = base64.b64encode(zlib.crc32(labelled).to_bytes(4, "big")).decode()
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, ChecksumCRC32=checksum)

    def digests(self, key: str) -> Mapping[str, str]:
        etag = self.s3.head_object(Bucket=self.bucket, Key=key)["ETag"].strip('"')
        self.s3.put_object(Bucket=self.bucket, Key=f"{key}-crc32c", Body=self.load(key), ChecksumAlgorithm="CRC32C")
        checked = self.s3.head_object(Bucket=self.bucket, Key=f"{key}-crc32c", ChecksumMode="ENABLED")
        return {
            "md5": base64.b64encode(bytes.fromhex(etag)).decode(),
            "crc32c": checked["ChecksumCRC32C"],
        }

    def signed_get(self, key: str) -> str:
        return self.s3.generate_presigned_url("get_object", Params={"Bucket": self.bucket, "Key": key})

    def signed_put(self, key: str) -> str:
        return self.s3.generate_presigned_url("put_object", Params={"Bucket": self.bucket, "Key": key})
