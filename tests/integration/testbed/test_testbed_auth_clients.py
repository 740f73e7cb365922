"""S3's credentials demanded of real clients: what each of them signs is accepted, and what it does when refused."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import obstore
import pytest
import s3fs
from boto3.s3.transfer import TransferConfig
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from obstore.exceptions import GenericError, PermissionDeniedError
from obstore.store import S3Store
from s3torchconnector import S3ClientConfig
from s3torchconnector._s3client import S3Client
from s3torchconnectorclient import S3Exception

from buckettestbed import RunningTestbed, launch_testbed
from buckettestbed.auth.credentials import EXPIRED, OWNER, READ_ONLY, TEMPORARY, AccessKey, Credentials
from buckettestbed.command import main
from buckettestbed.s3.errors import S3Error

LARGE = bytes(range(256)) * (12 << 12)  # 12 MiB: two parts of 5 MiB and one of 2.
ODD_KEYS = ("a//b", "a b+c", "Ünïcode/日本", "x%2Fy", "q?x=1&y", "~t-_.!*'()", "dir/")


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], require_auth=True, public_buckets=["open"]) as running:
        yield running


def credentials(testbed: RunningTestbed) -> Credentials:
    assert testbed.credentials is not None
    return testbed.credentials


def boto3_client(testbed: RunningTestbed, key: AccessKey | None, *, endpoint: str = "", **config: Any) -> Any:
    if key is None:
        config["signature_version"] = UNSIGNED
    return boto3.client(
        "s3",
        endpoint_url=endpoint or testbed.s3_endpoint,
        region_name="us-east-1",
        aws_access_key_id=key and key.access_key_id,
        aws_secret_access_key=key and key.secret_access_key,
        aws_session_token=key and key.session_token,
        verify=str(testbed.ca_certificate) if testbed.ca_certificate else None,
        config=Config(retries={"total_max_attempts": 1}, **config),
    )


@dataclass(frozen=True, kw_only=True)
class Refused:
    """What the testbed answered: S3's code, and how its message begins where that is not the code's usual one."""

    code: str
    begins: str = ""

    @property
    def status(self) -> int:
        return S3Error(self.code).status

    @property
    def message(self) -> str:
        return self.begins or S3Error(self.code).message


class Boto3:
    def __init__(self, testbed: RunningTestbed, key: AccessKey | None, bucket: str, folder: Path) -> None:
        self.s3, self.bucket = boto3_client(testbed, key), bucket

    def save(self, key: str, body: bytes) -> None:
        transfer = TransferConfig(multipart_chunksize=5 << 20, multipart_threshold=5 << 20)
        self.s3.upload_fileobj(io.BytesIO(body), self.bucket, key, Config=transfer)

    def load(self, key: str) -> bytes:
        body: bytes = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def remove(self, key: str) -> None:
        self.s3.delete_objects(Bucket=self.bucket, Delete={"Objects": [{"Key": key}]})

    @staticmethod
    def check(error: Exception, refused: Refused) -> None:
        error = error.__cause__ or error.__context__ or error  # upload_fileobj wraps it.
        assert isinstance(error, ClientError)
        assert error.response["Error"]["Code"] == refused.code
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == refused.status


class Obstore:
    def __init__(self, testbed: RunningTestbed, key: AccessKey | None, bucket: str, folder: Path) -> None:
        signing: dict[str, Any] = {"skip_signature": True}
        if key is not None:
            signing = {"access_key_id": key.access_key_id, "secret_access_key": key.secret_access_key}
            if key.session_token is not None:
                signing["token"] = key.session_token
        self.store = S3Store(
            bucket,
            endpoint=testbed.s3_endpoint,
            region="us-east-1",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
            **signing,
        )

    def save(self, key: str, body: bytes) -> None:
        obstore.put(self.store, key, body, chunk_size=5 << 20)

    def load(self, key: str) -> bytes:
        return bytes(obstore.get(self.store, key).bytes())

    def remove(self, key: str) -> None:
        obstore.delete(self.store, [key])

    @staticmethod
    def check(error: Exception, refused: Refused) -> None:
        assert type(error) is (PermissionDeniedError if refused.status == 403 else GenericError)
        assert f"<Code>{refused.code}</Code>" in str(error)


class TorchConnector:
    def __init__(self, testbed: RunningTestbed, key: AccessKey | None, bucket: str, folder: Path) -> None:
        self.bucket = bucket
        options: dict[str, Any] = {"unsigned": True}
        if key is not None:  # It takes a profile by name, from the file that AWS_SHARED_CREDENTIALS_FILE names.
            token = f"\naws_session_token = {key.session_token}" if key.session_token else ""
            (folder / "aws").write_text(
                f"[chosen]\naws_access_key_id = {key.access_key_id}\n"
                f"aws_secret_access_key = {key.secret_access_key}{token}\n"
            )
            options = {"profile": "chosen"}
        self.s3 = S3Client(
            "us-east-1",
            endpoint=testbed.s3_endpoint,
            s3client_config=S3ClientConfig(force_path_style=True, part_size=5 << 20, max_attempts=1, **options),
        )

    def save(self, key: str, body: bytes) -> None:
        writer = self.s3.put_object(self.bucket, key)
        writer.write(body)
        writer.close()

    def load(self, key: str) -> bytes:
        return self.s3.get_object(self.bucket, key).read()

    def remove(self, key: str) -> None:
        self.s3.delete_object(self.bucket, key)

    @staticmethod
    def check(error: Exception, refused: Refused) -> None:
        assert isinstance(error, S3Exception)
        said = "AWS_ERROR_S3_TOKEN_EXPIRED" if refused.code == "ExpiredToken" else f"Forbidden: {refused.message}"
        assert said in str(error)


class S3Fs:
    def __init__(self, testbed: RunningTestbed, key: AccessKey | None, bucket: str, folder: Path) -> None:
        self.bucket = bucket
        self.files = s3fs.S3FileSystem(
            anon=key is None,
            key=key and key.access_key_id,
            secret=key and key.secret_access_key,
            token=key and key.session_token,
            endpoint_url=testbed.s3_endpoint,
            client_kwargs={"region_name": "us-east-1"},
            config_kwargs={"retries": {"total_max_attempts": 1}},
            skip_instance_cache=True,
            default_block_size=5 << 20,
        )

    def save(self, key: str, body: bytes) -> None:
        if len(body) <= 5 << 20:
            self.files.pipe_file(f"{self.bucket}/{key}", body)
            return
        with self.files.open(f"{self.bucket}/{key}", "wb") as file:
            for start in range(0, len(body), 5 << 20):
                file.write(body[start : start + (5 << 20)])

    def load(self, key: str) -> bytes:
        body: bytes = self.files.cat_file(f"{self.bucket}/{key}")
        return body

    def remove(self, key: str) -> None:
        self.files.rm_file(f"{self.bucket}/{key}")

    @staticmethod
    def check(error: Exception, refused: Refused) -> None:
        is_permission = refused.status == 403 or refused.code == "ExpiredToken"
        assert type(error) is (PermissionError if is_permission else OSError)
        assert refused.message in str(error)


CLIENTS: dict[str, Callable[[RunningTestbed, AccessKey | None, str, Path], Any]] = {
    "boto3": Boto3,
    "obstore": Obstore,
    "s3torchconnector": TorchConnector,
    "s3fs": S3Fs,
}
NOT_OF_OBSTORE = {"a//b", "dir/"}  # It takes names for paths.
NOT_OF_S3FS = {"dir/", "a//b"}  # Likewise.


@pytest.fixture(params=CLIENTS)
def client(
    request: pytest.FixtureRequest, testbed: RunningTestbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Returns a function that makes one of the clients for an access key."""
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return lambda key, bucket="data": CLIENTS[request.param](testbed, key, bucket, tmp_path)


@pytest.mark.parametrize("name", [OWNER, TEMPORARY])
def test_what_a_client_signs_is_accepted(client: Callable[..., Any], testbed: RunningTestbed, name: str) -> None:
    made = client(credentials(testbed).access_keys[name])
    testbed.reset_counts()
    for key in ODD_KEYS:
        if key in (NOT_OF_OBSTORE if isinstance(made, Obstore) else NOT_OF_S3FS if isinstance(made, S3Fs) else ()):
            continue
        made.save(key, b"small")
        assert made.load(key) == b"small"
        made.remove(key)
    made.save("large", LARGE)
    assert made.load("large") == LARGE
    counted = testbed.counts()
    assert counted["requests"]["upload_part"] >= 3
    assert not [status for status in counted["errors"] if status in ("400", "401", "403")]


def spoilt(keys: Credentials) -> dict[str, tuple[AccessKey | None, Refused]]:
    """Returns what is wrong with a key, and the answer to it."""
    owner, temporary = keys.access_keys[OWNER], keys.access_keys[TEMPORARY]
    return {
        "secret": (replace(owner, secret_access_key="wrong"), Refused(code="SignatureDoesNotMatch")),
        "unknown": (replace(owner, access_key_id="AKIAUNKNOWN"), Refused(code="InvalidAccessKeyId")),
        "token": (replace(temporary, session_token="wrong"), Refused(code="InvalidToken")),
        "no token": (replace(temporary, session_token=None), Refused(code="InvalidAccessKeyId")),
        "expired": (keys.access_keys[EXPIRED], Refused(code="ExpiredToken")),
        "read-only": (keys.access_keys[READ_ONLY], Refused(code="AccessDenied", begins="The access key")),
        "anonymous": (None, Refused(code="AccessDenied")),
    }


@pytest.mark.parametrize("wrong", ["secret", "unknown", "token", "no token", "expired", "read-only", "anonymous"])
def test_what_a_client_raises_when_it_is_refused(
    client: Callable[..., Any], testbed: RunningTestbed, wrong: str
) -> None:
    key, refused = spoilt(credentials(testbed))[wrong]
    made = client(key)
    with pytest.raises(Exception) as caught:
        made.save("key", b"body")
    made.check(caught.value, refused)
    for access_key in credentials(testbed).access_keys.values():
        assert access_key.secret_access_key not in str(caught.value)


def test_reading_without_writing(client: Callable[..., Any], testbed: RunningTestbed) -> None:
    keys = credentials(testbed).access_keys
    for bucket in ("data", "open"):
        client(keys[OWNER], bucket).save("key", b"body")
    assert client(keys[READ_ONLY]).load("key") == b"body"
    public = client(None, "open")
    assert public.load("key") == b"body"
    with pytest.raises(Exception) as caught:
        public.save("key", b"other")
    public.check(caught.value, Refused(code="AccessDenied"))


def fetched(url: str, *, method: str = "GET", body: bytes | None = None) -> tuple[int, bytes]:
    """Opens an address without credentials."""
    headers = {} if body is None else {"Content-Type": ""}
    asked = urllib.request.Request(url, data=body, method=method, headers=headers)
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_plain_gets_are_judged_too(testbed: RunningTestbed) -> None:
    owner = credentials(testbed).access_keys[OWNER]
    for bucket in ("data", "open"):
        boto3_client(testbed, owner).put_object(Bucket=bucket, Key="plain", Body=b"body")
    assert fetched(f"{testbed.s3_endpoint}/open/plain") == (200, b"body")
    assert fetched(f"{testbed.s3_endpoint}/data/plain")[0] == 403
    for prefix, status in (("", 403), ("/download/storage/v1/b", 401)):
        open_path, path = ("/open/plain", "/data/plain") if not prefix else ("/open/o/plain", "/data/o/plain")
        assert fetched(f"{testbed.gcs_endpoint}{prefix}{open_path}?alt=media") == (200, b"body")
        assert fetched(f"{testbed.gcs_endpoint}{prefix}{path}?alt=media")[0] == status


@pytest.mark.parametrize("addressing", ["path", "virtual"])
@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_presigned_addresses(
    testbed: RunningTestbed, monkeypatch: pytest.MonkeyPatch, addressing: str, version: str
) -> None:
    resolve = socket.getaddrinfo

    def resolving_localhost(host: Any, *args: Any, **options: Any) -> Any:  # Not every resolver knows BUCKET.localhost.
        return resolve("127.0.0.1" if str(host).endswith("localhost") else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolving_localhost)
    endpoint = testbed.s3_endpoint.replace("127.0.0.1", "localhost")
    s3 = boto3_client(
        testbed,
        credentials(testbed).access_keys[TEMPORARY],
        endpoint=endpoint,
        s3={"addressing_style": addressing},
        signature_version=version,
    )
    for key in ODD_KEYS:
        names = {"Bucket": "data", "Key": key}
        put, get = (s3.generate_presigned_url(name, Params=names) for name in ("put_object", "get_object"))
        assert ("data.localhost" in get) is (addressing == "virtual")
        assert fetched(put, method="PUT", body=b"body")[0] == 200, key
        assert fetched(get) == (200, b"body"), key
        status, document = fetched(get, method="PUT", body=b"body")
        assert (status, b"<Code>SignatureDoesNotMatch</Code>" in document) == (403, True)
        assert s3.get_object(**names)["Body"].read() == b"body" if version == "s3v4" else True
    shown = s3.generate_presigned_url(
        "get_object", Params={"Bucket": "data", "Key": "a b+c", "ResponseContentType": "text/x y"}
    )
    assert fetched(shown)[0] == 200


def test_an_address_presigned_by_obstore(testbed: RunningTestbed, tmp_path: Path) -> None:
    made = Obstore(testbed, credentials(testbed).access_keys[OWNER], "data", tmp_path)
    made.save("a b+c", b"body")
    url = obstore.sign(made.store, "GET", "a b+c", timedelta(seconds=60))
    assert fetched(url) == (200, b"body")
    assert fetched(url.replace("X-Amz-Expires=60", "X-Amz-Expires=61"))[0] == 403


def test_a_client_of_another_region_is_told_the_right_one(testbed: RunningTestbed) -> None:
    key = credentials(testbed).access_keys[OWNER]
    elsewhere = boto3.client(
        "s3",
        endpoint_url=testbed.s3_endpoint,
        region_name="eu-west-1",
        aws_access_key_id=key.access_key_id,
        aws_secret_access_key=key.secret_access_key,
    )
    testbed.reset_counts()
    elsewhere.list_objects_v2(Bucket="data")  # boto3 signs again, for the region that the refusal names.
    assert testbed.counts()["errors"] == {"400": 1}
    elsewhere.create_bucket(Bucket="europe", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    elsewhere.list_objects_v2(Bucket="europe")
    assert testbed.counts()["errors"] == {"400": 1}


def test_what_the_command_prints_has_paths_and_no_secret() -> None:
    command = [sys.executable, "-m", "buckettestbed", "--require-auth", "--exit-with-parent"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        made = Credentials.read(Path(json.loads(line)["credentials"]))
        _, log = process.communicate()  # Ends its standard input, and it with that.
    secrets = list(made.tokens.values())
    for key in made.access_keys.values():
        secrets += [key.secret_access_key, key.session_token or key.secret_access_key]
    assert not [secret for secret in secrets if secret in line + log.decode()]
    assert process.returncode == 0
    assert not made.folder.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--public-bucket", "open"], "--public-bucket needs --require-auth"),
        (["--require-auth", "--public-bucket", "No"], "--public-bucket 'No' is not a bucket name"),
        (["--require-auth", "--token-lifetime-s", "0"], "--token-lifetime-s 0.0 is out of range"),
        (["--require-auth", "--token-lifetime-s", "nan"], "--token-lifetime-s nan is out of range"),
    ],
)
def test_options_that_make_no_sense(capsys: pytest.CaptureFixture[str], options: list[str], said: str) -> None:
    assert main(options) == 2
    assert said in capsys.readouterr().err


def test_unsigned_chunks_with_a_trailer_over_tls() -> None:
    with launch_testbed(buckets=["data"], require_auth=True, tls=True) as testbed:
        s3 = boto3_client(testbed, credentials(testbed).access_keys[OWNER])
        s3.put_object(Bucket="data", Key="key", Body=io.BytesIO(b"body"))
        assert s3.get_object(Bucket="data", Key="key")["Body"].read() == b"body"
        folder = credentials(testbed).folder
        assert folder.is_dir()
    assert not folder.exists()
