from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from torchbucket.config import MIB, RetryConfig, StoreConfig
from torchbucket.errors import ConfigError

WRONG = [
    ("region", ""),
    ("region", 3),
    ("region", "é"),
    ("endpoint", "https://é.example"),
    ("profile", "line\nfeed"),
    ("endpoint", "localhost:9000"),
    ("endpoint", "ftp://host"),
    ("endpoint", "http://"),
    ("endpoint", "http://host:99999"),
    ("endpoint", "http://host?x=1"),
    ("path_style", "yes"),
    ("anonymous", 1),
    ("requester_pays", None),
    ("sse", "rot13"),
    ("sse_kms_key_id", "key"),
    ("part_size_bytes", 5 * MIB - 1),
    ("part_size_bytes", 8e6),
    ("concurrency", 0),
    ("concurrency", True),
    ("concurrency", 5000),
    ("memory_budget_bytes", MIB),
    ("list_page_size", 1001),
    ("retry", None),
    ("retry", 6),
    ("list_retry", {"max_attempts": 3}),
    ("connect_timeout_s", 0),
    ("stall_timeout_s", 0.5),
    ("verify_checksums", 1),
    ("upload_checksum", "md5"),
    ("upload_checksum", None),
    ("ca_bundle", "/no/such/file.pem"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_names_its_field(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"StoreConfig\.{name} ") as caught:
        StoreConfig(**{name: value})  # type: ignore[arg-type]
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("initial_s", -1),
        ("initial_s", "0.2"),
        ("multiplier", 0.5),
        ("multiplier", True),
        ("maximum_s", float("nan")),
        ("maximum_s", 0.1),  # below initial_s
        ("deadline_s", 0),
        ("deadline_s", float("inf")),
        ("max_attempts", 0),
        ("max_attempts", 2.0),
    ],
)
def test_a_wrong_retry_value_names_its_field(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"RetryConfig\.{name} "):
        RetryConfig(**{name: value})  # type: ignore[arg-type]


def test_the_budget_must_hold_a_part() -> None:
    with pytest.raises(ConfigError, match="memory_budget_bytes must hold at least one part of 67108864"):
        StoreConfig(part_size_bytes=64 * MIB, memory_budget_bytes=32 * MIB)


@pytest.mark.parametrize("endpoint", ["http://user:hunter2@host", "https://hunter2@host:1/"])
def test_an_endpoint_with_a_password_is_refused_without_repeating_it(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="without user name or password") as caught:
        StoreConfig(endpoint=endpoint)
    assert "hunter2" not in str(caught.value)


def test_a_config_is_a_value() -> None:
    config = StoreConfig(endpoint="http://[::1]:9000/base", sse="aws:kms", sse_kms_key_id="k", concurrency=3)
    config = replace(config, retry=RetryConfig(max_attempts=2), list_retry=RetryConfig(initial_s=1.0))
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(pickle.loads(pickle.dumps(config)))
    with pytest.raises(AttributeError):
        config.concurrency = 4  # type: ignore[misc]
    assert repr(StoreConfig(region="r")) == "StoreConfig(region='r')"
    assert eval(repr(config)) == config


def test_fields_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        StoreConfig("us-east-1")  # type: ignore[misc]
