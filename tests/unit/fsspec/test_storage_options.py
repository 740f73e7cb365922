"""Storage options become settings, or an error that names them and quotes no secret."""

from __future__ import annotations

from typing import Any

import pytest

from torchbucket import ConfigError, StoreConfig
from torchbucket.fsspec import BucketFileSystem


def config(protocol: str, **options: Any) -> StoreConfig:
    return BucketFileSystem(protocol=protocol, **options).config


@pytest.mark.parametrize(
    ("protocol", "options", "expected"),
    [
        ("s3", {"anon": True}, StoreConfig(anonymous=True)),
        ("s3", {"anon": False, "key": None, "use_listings_cache": False}, StoreConfig()),
        ("s3", {"endpoint_url": "http://host:1"}, StoreConfig(endpoint="http://host:1")),
        (
            "s3",
            {"client_kwargs": {"endpoint_url": "https://host", "region_name": "eu-west-1", "verify": True}},
            StoreConfig(endpoint="https://host", region="eu-west-1"),
        ),
        ("s3", {"config_kwargs": {"s3": {"addressing_style": "path"}}}, StoreConfig(path_style=True)),
        ("s3", {"s3_additional_kwargs": {"ServerSideEncryption": "AES256"}}, StoreConfig(sse="AES256")),
        ("s3", {"profile": "work", "requester_pays": True}, StoreConfig(profile="work", requester_pays=True)),
        ("s3", {"use_ssl": False, "endpoint_url": "http://host"}, StoreConfig(endpoint="http://host")),
        ("gs", {"token": "anon", "project": "my-project"}, StoreConfig(anonymous=True)),
        ("gs", {"token": "google_default"}, StoreConfig()),
        ("gs", {"requester_pays": "my-project"}, StoreConfig(user_project="my-project")),
    ],
)
def test_options_of_other_file_systems_are_settings(
    protocol: str, options: dict[str, Any], expected: StoreConfig
) -> None:
    assert config(protocol, **options) == expected


def test_options_change_the_settings_that_were_given() -> None:
    given = StoreConfig(region="eu-west-1", concurrency=5)
    assert config("s3", config=given, anon=True) == StoreConfig(region="eu-west-1", concurrency=5, anonymous=True)


@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        ("s3", {"key": "hidden", "secret": "hidden"}),
        ("s3", {"token": "hidden"}),
        ("gs", {"token": {"private_key": "hidden"}}),
        ("gs", {"token": "/hidden/key.json"}),
        ("s3", {"client_kwargs": {"aws_secret_access_key": "hidden"}}),
        ("s3", {"client_kwargs": {"verify": False}}),
        ("s3", {"use_ssl": False}),
        ("s3", {"version_aware": True}),
        ("s3", {"config_kwargs": {"signature_version": "s3"}}),
        ("s3", {"s3_additional_kwargs": {"ACL": "public-read"}}),
        ("gs", {"requester_pays": True}),
        ("gs", {"profile": "work"}),
        ("gs", {"misspelt": 1}),
    ],
)
def test_what_means_nothing_here_is_refused_by_name(protocol: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        config(protocol, **options)
    assert "hidden" not in str(refused.value)
    assert any(name in str(refused.value) for name in options)
