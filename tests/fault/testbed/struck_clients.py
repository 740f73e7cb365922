"""The clients that faults strike, each with its defaults save for two things: no wait between two tries, because tests
have no time for it, and, where a test asks for it, a short limit on silence, where the client has such a limit."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import patch

import boto3
import obstore
import s3fs
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from gcsfs.core import GCSFileSystem  # Not the class that first looks for gRPC, for a minute where there is none.
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.storage.retry import DEFAULT_RETRY
from obstore.store import GCSStore, S3Store
from s3torchconnector import S3ClientConfig
from s3torchconnector._s3client import S3Client

from buckettestbed import RunningTestbed

BUCKET = "data"
SILENCE_LIMIT_S = 1.0
PART_BYTES = 5 << 20
CHUNK_BYTES = 256 << 10

_IMPATIENT_RETRY = DEFAULT_RETRY.with_delay(initial=0.01, maximum=0.05)


@contextmanager
def no_waits_between_tries() -> Iterator[None]:
    """Shortens the back-off of the clients that take no option for it."""
    with ExitStack() as stack:
        # botocore's legacy mode, boto3's and s3fs's default: up to 1 s before the second try.
        stack.enter_context(patch("botocore.retryhandler.delay_exponential", lambda *_, **__: 0.01))
        # gcsfs sleeps random() + 2 ** (tries - 1) seconds.
        stack.enter_context(patch("gcsfs.retry.random", SimpleNamespace(random=lambda: -0.99)))
        yield


class Struck:
    """What every client here can do.

    `write` is the operation that carries the bytes of a small save, `end` that which makes a large one an object;
    `is_s3` says whether it speaks S3, `has_create` whether there is a call to save only where nothing is,
    `has_silence_limit` whether the client can be told to give up on a silent server.
    """

    name: ClassVar[str]
    write: ClassVar[str] = "put_object"
    end: ClassVar[str] = "complete_upload"
    is_s3: ClassVar[bool] = False
    has_create: ClassVar[bool] = True
    has_silence_limit: ClassVar[bool] = True

    def save(self, key: str, body: bytes) -> None:
        raise NotImplementedError

    def save_large(self, key: str, body: bytes) -> None:
        raise NotImplementedError

    def create(self, key: str, body: bytes) -> None:
        """Saves only where there is no object."""
        raise NotImplementedError

    def load(self, key: str) -> bytes:
        raise NotImplementedError

    def names(self, prefix: str) -> list[str]:
        raise NotImplementedError


class Boto3(Struck):
    name = "boto3"
    is_s3 = True

    def __init__(self, testbed: RunningTestbed, *, impatient: bool = False) -> None:
        self.s3 = boto3.client(
            "s3",
            endpoint_url=testbed.s3_endpoint,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            config=Config(s3={"addressing_style": "path"}, **({"read_timeout": SILENCE_LIMIT_S} if impatient else {})),
        )

    def save(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    def create(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body, IfNoneMatch="*")

    def save_large(self, key: str, body: bytes) -> None:
        transfer = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES)
        self.s3.upload_fileobj(io.BytesIO(body), BUCKET, key, Config=transfer)

    def load(self, key: str) -> bytes:
        return self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def names(self, prefix: str) -> list[str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]


class _Obstore(Struck):
    store: Any

    def save(self, key: str, body: bytes) -> None:
        obstore.put(self.store, key, body, use_multipart=False)

    def create(self, key: str, body: bytes) -> None:
        obstore.put(self.store, key, body, use_multipart=False, mode="create")

    def save_large(self, key: str, body: bytes) -> None:
        obstore.put(self.store, key, body, use_multipart=True, chunk_size=PART_BYTES)

    def load(self, key: str) -> bytes:
        return bytes(obstore.get(self.store, key).bytes())

    def names(self, prefix: str) -> list[str]:
        return [found["path"] for page in obstore.list(self.store, prefix) for found in page]


def _obstore_options(impatient: bool) -> dict[str, Any]:
    backoff = {"init_backoff": timedelta(milliseconds=10), "max_backoff": timedelta(milliseconds=50), "base": 2}
    limit = {"timeout": timedelta(seconds=SILENCE_LIMIT_S)} if impatient else {}
    return {"retry_config": {"backoff": backoff}, "client_options": {"allow_http": True, **limit}}


class ObstoreS3(_Obstore):
    name = "obstore (S3)"
    is_s3 = True

    def __init__(self, testbed: RunningTestbed, *, impatient: bool = False) -> None:
        self.store = S3Store(
            BUCKET,
            endpoint=testbed.s3_endpoint,
            region="us-east-1",
            access_key_id="key",
            secret_access_key="secret",
            virtual_hosted_style_request=False,
            **_obstore_options(impatient),
        )


class ObstoreGcs(_Obstore):
    name = "obstore (GCS)"

    def __init__(self, testbed: RunningTestbed, *, impatient: bool = False) -> None:
        # Not skip_signature: its uploads ask the metadata server for a token all the same (0.12.1).
        self.store = GCSStore(
            BUCKET,
            base_url=testbed.gcs_endpoint,
            credential_provider=lambda: {"token": "any", "expires_at": None},
            **_obstore_options(impatient),
        )


class Connector(Struck):
    name = "s3torchconnector"
    is_s3 = True
    write = "upload_part"
    has_create = False
    has_silence_limit = False

    def __init__(self, testbed: RunningTestbed, *, impatient: bool = False) -> None:
        del impatient
        self.s3 = S3Client(
            "us-east-1", endpoint=testbed.s3_endpoint, s3client_config=S3ClientConfig(force_path_style=True)
        )

    def save(self, key: str, body: bytes) -> None:
        writer = self.s3.put_object(BUCKET, key)
        writer.write(body)
        writer.close()

    save_large = save

    def load(self, key: str) -> bytes:
        return self.s3.get_object(BUCKET, key).read()

    def names(self, prefix: str) -> list[str]:
        return [found.key for page in self.s3.list_objects(BUCKET, prefix) for found in page.object_info]


class S3fs(Struck):
    name = "s3fs"
    is_s3 = True

    def __init__(self, testbed: RunningTestbed, *, impatient: bool = False) -> None:
        limit = {"read_timeout": SILENCE_LIMIT_S} if impatient else {}
        self.files = s3fs.S3FileSystem(
            key="key",
            secret="secret",
            client_kwargs={"endpoint_url": testbed.s3_endpoint, "region_name": "us-east-1"},
            config_kwargs={"s3": {"addressing_style": "path"}, **limit},
            skip_instance_cache=True,
            use_listings_cache=False,
        )

    def save(self, key: str, body: bytes) -> None:
        self.files.pipe_file(f"{BUCKET}/{key}", body)

    def create(self, key: str, body: bytes) -> None:
        self.files.pipe_file(f"{BUCKET}/{key}", body, mode="create")

    def save_large(self, key: str, body: bytes) -> None:
        with self.files.open(f"{BUCKET}/{key}", "wb", block_size=PART_BYTES) as file:
            file.write(body)

    def load(self, key: str) -> bytes:
        return self.files.cat_file(f"{BUCKET}/{key}")

    def names(self, prefix: str) -> list[str]:
        return [name.removeprefix(f"{BUCKET}/") for name in self.files.find(f"{BUCKET}/{prefix}")]


class GoogleStorage(Struck):
    name = "google-cloud-storage"
    end = "upload_chunk"

    def __init__(self, testbed: RunningTestbed, *, impatient: bool = False) -> None:
        self.timeout = SILENCE_LIMIT_S if impatient else 60
        client = storage.Client(
            project="test", credentials=AnonymousCredentials(), client_options={"api_endpoint": testbed.gcs_endpoint}
        )
        self.bucket = client.bucket(BUCKET)

    def save(self, key: str, body: bytes) -> None:
        self.bucket.blob(key).upload_from_string(body, timeout=self.timeout, retry=_IMPATIENT_RETRY)

    def create(self, key: str, body: bytes) -> None:
        self.bucket.blob(key).upload_from_string(
            body, timeout=self.timeout, retry=_IMPATIENT_RETRY, if_generation_match=0
        )

    def save_large(self, key: str, body: bytes) -> None:
        blob = self.bucket.blob(key, chunk_size=CHUNK_BYTES)
        blob.upload_from_file(io.BytesIO(body), timeout=self.timeout, retry=_IMPATIENT_RETRY)

    def load(self, key: str) -> bytes:
        return self.bucket.blob(key).download_as_bytes(timeout=self.timeout, retry=_IMPATIENT_RETRY)

    def names(self, prefix: str) -> list[str]:
        return [found.name for found in self.bucket.list_blobs(prefix=prefix, retry=_IMPATIENT_RETRY)]


class Gcsfs(Struck):
    name = "gcsfs"
    end = "upload_chunk"

    def __init__(self, testbed: RunningTestbed, *, impatient: bool = False) -> None:
        self.files = GCSFileSystem(
            endpoint_url=testbed.gcs_endpoint,
            token="anon",
            skip_instance_cache=True,
            use_listings_cache=False,
            requests_timeout=SILENCE_LIMIT_S if impatient else None,
        )

    def save(self, key: str, body: bytes) -> None:
        self.files.pipe_file(f"{BUCKET}/{key}", body)

    def create(self, key: str, body: bytes) -> None:
        self.files.pipe_file(f"{BUCKET}/{key}", body, mode="create")

    def save_large(self, key: str, body: bytes) -> None:
        with self.files.open(f"{BUCKET}/{key}", "wb", block_size=CHUNK_BYTES) as file:
            file.write(body)

    def load(self, key: str) -> bytes:
        return self.files.cat_file(f"{BUCKET}/{key}")

    def names(self, prefix: str) -> list[str]:
        return [name.removeprefix(f"{BUCKET}/") for name in self.files.find(f"{BUCKET}/{prefix}")]


CLIENTS: dict[str, type[Any]] = {
    kind.name: kind for kind in (Boto3, ObstoreS3, Connector, S3fs, GoogleStorage, Gcsfs, ObstoreGcs)
}
