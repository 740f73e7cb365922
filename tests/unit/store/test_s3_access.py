"""Where requests go and who signs them: settings, environment and profiles, in botocore's order."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError, PermissionDeniedError
from torchbucket.store.http import renewed_credentials
from torchbucket.store.s3.access import Access, Place, addressed
from torchbucket.store.transport.certificates import trusted_certificates

VARIABLES = (
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "SSL_CERT_FILE",
    "AWS_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def place(bucket: str = "bucket", **fields: object) -> Place:
    return Access(bucket, StoreConfig(**fields)).place()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("region", "origin"),
    [
        ("eu-west-1", "https://bucket.s3.eu-west-1.amazonaws.com"),
        ("us-east-1", "https://bucket.s3.amazonaws.com"),
        ("cn-north-1", "https://bucket.s3.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_amazons_own_endpoint_has_the_bucket_in_the_host(region: str, origin: str) -> None:
    found = place(region=region, anonymous=True)
    assert (found.origin, found.host, found.prefix, found.region) == (origin, origin[8:], "/", region)


def test_a_bucket_with_dots_goes_into_the_path_over_tls() -> None:
    found = place("dotted.bucket", region="eu-west-1", anonymous=True)
    assert (found.origin, found.prefix) == ("https://s3.eu-west-1.amazonaws.com", "/dotted.bucket/")
    with pytest.raises(ConfigError, match="path_style"):
        place("dotted.bucket", region="eu-west-1", anonymous=True, path_style=False)


@pytest.mark.parametrize(
    ("endpoint", "path_style", "origin", "prefix"),
    [
        ("http://127.0.0.1:9000", None, "http://127.0.0.1:9000", "/bucket/"),
        ("http://localhost:9000", False, "http://bucket.localhost:9000", "/"),
        ("https://store.example:443/base/", None, "https://store.example", "/base/bucket/"),
        ("http://[::1]:80", True, "http://[::1]", "/bucket/"),
        ("https://store.example:80", None, "https://store.example:80", "/bucket/"),
    ],
)
def test_a_custom_endpoint(endpoint: str, path_style: bool | None, origin: str, prefix: str) -> None:
    found = addressed("bucket", endpoint, "r", path_style, custom=True)
    assert (found.origin, found.prefix) == (origin, prefix)
    assert found.host == origin.partition("://")[2]


@pytest.mark.parametrize(
    ("first", "named", "origin"),
    [
        ("us-east-1", "eu-west-1", "https://bucket.s3.eu-west-1.amazonaws.com"),
        ("eu-west-1", "ap-south-1", "https://bucket.s3.ap-south-1.amazonaws.com"),
        ("eu-west-1", "us-east-1", "https://bucket.s3.us-east-1.amazonaws.com"),
        ("cn-north-1", "cn-northwest-1", "https://bucket.s3.cn-northwest-1.amazonaws.com.cn"),
    ],
)
def test_the_region_that_an_answer_names_is_followed_to_its_endpoint(first: str, named: str, origin: str) -> None:
    access = Access("bucket", StoreConfig(region=first, anonymous=True))
    access.place()
    assert not access.follow(first)
    assert access.follow(named)
    assert (access.place().origin, access.place().region) == (origin, named)
    assert access.follow(named)  # on the way since before
    assert not access.follow("sa-east-1")


def test_two_threads_that_begin_together_look_for_the_place_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second would also take back the region that an answer has led the first to."""
    access = Access("bucket", StoreConfig(region="eu-west-1", anonymous=True))
    held: list[Place] = []

    class Overtaken:
        """A lock that another thread has had before this one gets it."""

        def __enter__(self) -> None:
            monkeypatch.setattr(access, "_lock", contextlib.nullcontext())
            access.place()
            assert access.follow("eu-west-2")

        def __exit__(self, *_: object) -> None:
            held.append(access.place())

    monkeypatch.setattr(access, "_lock", Overtaken())
    assert access.place().region == "eu-west-2"
    assert held == [access.place()]


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_the_environment_names_the_endpoint(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:9000")
    found = place(anonymous=True)
    assert (found.origin, found.prefix, found.region) == ("http://127.0.0.1:9000", "/bucket/", "us-east-1")
    assert place(anonymous=True, endpoint="http://127.0.0.1:1").origin == "http://127.0.0.1:1"


def test_the_regions_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[default]\nregion = ap-south-1\n[profile other]\nregion = sa-east-1\n")
    assert place(endpoint="http://h").region == "ap-south-1"
    assert place(endpoint="http://h", profile="other").region == "sa-east-1"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-2")
    assert place(endpoint="http://h").region == "eu-west-2"
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    assert place(endpoint="http://h").region == "eu-west-3"
    assert place(endpoint="http://h", region="eu-west-1").region == "eu-west-1"


def test_credentials_come_from_profile_and_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = FILE\naws_secret_access_key = s\n")
    access = Access("bucket", StoreConfig(profile="work"))
    access.prepare()
    found = access.credentials()
    assert found is not None
    assert (found.access_key, found.token) == ("FILE", None)
    assert access.credentials() is found
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "t")
    access = Access("bucket", StoreConfig())
    access.prepare()
    found = access.credentials()
    assert found is not None
    assert (found.access_key, found.token) == ("ENV", "t")


def test_refreshed_credentials_are_asked_for_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A credential process gives keys that end soon; botocore refreshes them, and the store signs with the new ones."""
    counter = tmp_path / "counter"
    program = tmp_path / "program.sh"
    program.write_text(
        f"echo x >> {counter}\nN=$(wc -l < {counter} | tr -d ' ')\n"
        "SOON=$(date -u -d '+60 seconds' +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -v+60S +%Y-%m-%dT%H:%M:%SZ)\n"
        'printf \'{"Version":1,"AccessKeyId":"KEY%s","SecretAccessKey":"s","Expiration":"%s"}\' $N $SOON\n'
    )
    (tmp_path / "config").write_text(f"[profile p]\ncredential_process = sh {program}\n")
    access = Access("bucket", StoreConfig(profile="p"))
    access.prepare()
    first = access.credentials()
    assert first is not None
    assert access.credentials() is first
    now_s = time.time()
    monkeypatch.setattr(renewed_credentials.time, "time", lambda: now_s + 55)
    access.prepare()  # They have ended, so these are waited for.
    second = access.credentials()
    access.renew()
    assert access.credentials() is second
    monkeypatch.setattr(renewed_credentials.time, "time", lambda: now_s + 120)
    access.prepare()
    third = access.credentials()
    assert second is not None and third is not None
    assert len({first.access_key, second.access_key, third.access_key}) == 3


def test_no_credentials_say_how_to_give_them() -> None:
    with pytest.raises(PermissionDeniedError, match=r"AWS_ACCESS_KEY_ID.*anonymous=True"):
        Access("bucket", StoreConfig()).prepare()
    anonymous = Access("bucket", StoreConfig(anonymous=True))
    anonymous.prepare()
    assert anonymous.credentials() is None


def test_a_profile_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="'nobody' does not exist"):
        Access("bucket", StoreConfig(profile="nobody")).prepare()


def test_the_certificates_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = {}
    for name in ("REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE", "SSL_CERT_FILE"):
        files[name] = tmp_path / name
        files[name].write_text("")
        monkeypatch.setenv(name, str(files[name]))
        assert trusted_certificates(StoreConfig()) == str(files[name])
    mine = tmp_path / "mine"
    mine.write_text("")
    assert trusted_certificates(StoreConfig(ca_bundle=str(mine))) == str(mine)
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
    with pytest.raises(ConfigError, match="SSL_CERT_FILE"):
        trusted_certificates(StoreConfig())


def test_a_directory_bucket_is_refused_by_name_unless_an_endpoint_is_given():
    with pytest.raises(ConfigError, match=r"s3://b--use1-az4--x-s3 is a directory bucket.*not supported"):
        addressed("b--use1-az4--x-s3", "https://s3.us-east-1.amazonaws.com", "us-east-1", None, custom=False)
    assert addressed("b--use1-az4--x-s3", "http://127.0.0.1:9", "us-east-1", None, custom=True)
