"""A request before it is sent: it shows no secret, and nothing from outside becomes a header of its own."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError
from torchbucket.store.gcs.dialect import GcsDialect
from torchbucket.store.http.refusal import shown
from torchbucket.store.http.renewed_credentials import _Fetched
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.s3.dialect import S3Dialect
from torchbucket.store.transport.engine import Attempt
from torchbucket.store.transport.operation import Call, Request

SECRET = "a-secret-key-of-40-characters-1234567890"
TOKEN = "a-session-token-that-nobody-may-see"
OUTSIDE = ["a\r\nx-injected: 1", "a\nx: 1", "a\0", "\u00e9", "a\u2028b"]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> S3Dialect:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    dialect = S3Dialect("bucket", StoreConfig(region="eu-west-1", endpoint="https://h"))
    dialect.prepare()
    return dialect


@pytest.fixture
def gs() -> GcsDialect:
    dialect = GcsDialect("bucket", StoreConfig(endpoint="https://h"))
    held = _Fetched((f"authorization: Bearer {TOKEN}",), 0.0, None)
    dialect.requests._access._renewed._fetched = held
    dialect.prepare()
    return dialect


def test_no_representation_of_a_request_shows_what_signs_it(
    s3: S3Dialect, gs: GcsDialect, caplog: pytest.LogCaptureFixture
) -> None:
    for dialect in (s3, gs):
        request = dialect.requests.get_request("k", start=0, stop=5, version="7")
        assert any(TOKEN in line for line in request.headers)
        call = Call("get_object", "k", "x://bucket/k", lambda request=request: request, lambda answer: None)
        attempt = Attempt(call, request)
        with caplog.at_level(logging.DEBUG):
            logging.getLogger("torchbucket").debug("%r %r %r %r", request, attempt, call, vars(dialect))
        texts = [repr(value) for value in (request, attempt, call, dialect, vars(dialect), vars(dialect.requests))]
        for text in (*texts, caplog.text):
            assert TOKEN not in text
            assert SECRET not in text
            assert "Signature=" not in text


@pytest.mark.parametrize("text", OUTSIDE)
def test_a_version_from_outside_is_no_header_of_its_own(s3: S3Dialect, gs: GcsDialect, text: str) -> None:
    source = ObjectInfo(key="k", size_bytes=1, version=text)
    for dialect in (s3, gs):
        with pytest.raises(ConfigError):
            dialect.requests.get_request("k", start=0, stop=1, version=text)
        with pytest.raises(ConfigError):
            dialect.requests.head_request("k", version=text)
    with pytest.raises(ConfigError, match="x-amz-copy-source-if-match"):
        s3.requests.copy_request(source, "t")
    with pytest.raises(ConfigError, match="generation"):
        gs.requests.compose_request([source], "t", condition=None)


@pytest.mark.parametrize("text", OUTSIDE)
def test_what_an_answer_brought_is_no_header_and_no_address_of_its_own(
    s3: S3Dialect, gs: GcsDialect, text: str
) -> None:
    """Upload ids, tokens and keys are percent-encoded in addresses."""
    source = ObjectInfo(key="k", size_bytes=1, version="7")
    for request in (
        s3.requests.abort_request("k", text),
        s3.requests.page_request(text, start_after="", token=text),
        s3.requests.uploads_request(text, (text, text)),
        s3.requests.copy_request(replace(source, key=text), text),
        gs.requests.abort_request("k", text),
        gs.requests.page_request(text, start_after=text, token=text),
        gs.requests.uploads_request(text, (text, text)),
        gs.requests.rewrite_request(source, "t", text),
    ):
        assert request.url.isascii()
        assert request.url.isprintable()


@pytest.mark.parametrize("text", OUTSIDE)
def test_a_secret_with_a_line_break_is_refused_and_not_shown(text: str) -> None:
    line = f"authorization: Bearer {TOKEN}{text}"
    with pytest.raises(ConfigError, match="authorization") as caught:
        Request(method="GET", url="https://h/", headers=[line])
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    "said",
    [
        f"you sent Authorization: Bearer {TOKEN}",
        f"Credential=AKID/20260101/r/s3/aws4_request, Signature={TOKEN}",
        "x-amz-security-token: " + "IQoJb3JpZ2luX2VjE" * 4,
    ],
)
def test_what_a_server_says_of_a_request_shows_no_secret(said: str) -> None:
    """Proxies and debugging servers repeat the request that they answer."""
    assert TOKEN not in shown(said)
    assert "IQoJb3JpZ2luX2VjE" not in shown(said)
