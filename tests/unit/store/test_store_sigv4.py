"""Our signature is botocore's, byte for byte, over odd keys, queries, headers and tokens."""

from __future__ import annotations

import datetime
import pickle
from unittest import mock
from urllib.parse import quote

import botocore.auth
import botocore.credentials
import pytest
from botocore.awsrequest import AWSRequest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from torchbucket.store.s3.sigv4 import EMPTY_SHA256, UNSIGNED_PAYLOAD, Credentials, Signer, canonical_query

NOW_S = 1_795_800_000.0
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
HEADER = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)


def botocores(method: str, url: str, headers: dict[str, str], payload: str, token: str | None, region: str) -> str:
    credentials = botocore.credentials.Credentials("AKID", "SECRET/+x", token)
    signer = botocore.auth.S3SigV4Auth(credentials, "s3", region)
    request = AWSRequest(method=method, url=url, headers={**headers, "X-Amz-Content-SHA256": payload})
    moment = datetime.datetime.fromtimestamp(NOW_S, datetime.UTC).replace(tzinfo=None)
    with (
        mock.patch.object(botocore.auth, "get_current_datetime", lambda: moment),
        mock.patch.object(signer, "payload", lambda _: payload),
    ):
        signer.add_auth(request)
    return str(request.headers["Authorization"])


@settings(max_examples=examples(50))
@given(
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD"]),
    key=TEXT,
    query=st.dictionaries(TEXT.filter(bool), TEXT, max_size=4),
    headers=st.dictionaries(
        st.sampled_from(["range", "if-match", "x-amz-copy-source", "x-amz-checksum-crc32"]), HEADER
    ),
    payload=st.sampled_from([EMPTY_SHA256, UNSIGNED_PAYLOAD]),
    token=st.none() | HEADER,
    region=st.sampled_from(["us-east-1", "eu-west-3"]),
    host=st.sampled_from(["bucket.s3.amazonaws.com", "127.0.0.1:9000"]),
)
def test_the_signature_is_botocores(
    method: str,
    key: str,
    query: dict[str, str],
    headers: dict[str, str],
    payload: str,
    token: str | None,
    region: str,
    host: str,
) -> None:
    path = "/" + quote(key, safe="/-_.~")
    encoded = canonical_query(query)
    lines = Signer(region).sign(
        Credentials("AKID", "SECRET/+x", token), method, host, path, encoded, headers, payload, now_s=NOW_S
    )
    scheme = "https" if ":" not in host else "http"
    url = f"{scheme}://{host}{path}" + (f"?{encoded}" if encoded else "")
    sent = dict(line.split(": ", 1) for line in lines)
    assert sent["Authorization"] == botocores(method, url, headers, payload, token, region)
    assert sent.get("x-amz-security-token") == token
    assert all(sent[name] == value for name, value in headers.items())


def test_the_days_key_is_kept_and_changes_with_day_and_credentials() -> None:
    signer = Signer("us-east-1")
    first, second = Credentials("A", "one"), Credentials("A", "two")

    def signature(credentials: Credentials, now_s: float) -> str:
        return signer.sign(credentials, "GET", "h", "/k", "", {}, EMPTY_SHA256, now_s=now_s)[-1]

    results = [
        signature(first, NOW_S),
        signature(second, NOW_S),
        signature(first, NOW_S + 86400),
        signature(first, NOW_S),
    ]
    assert results[0] == results[3]
    assert len(set(results)) == 3


def test_credentials_do_not_show() -> None:
    credentials = Credentials("AKIA12345", "hush", "token")
    assert "hush" not in repr(credentials)
    assert "token" not in repr(credentials)
    with pytest.raises(TypeError, match="do not cross"):
        pickle.dumps(credentials)


def test_a_query_is_sorted_by_its_encoded_bytes() -> None:
    query = canonical_query({"a b": "x y", "é": "", "a": "1", "B": "+", "a-b": "/~"})
    assert query == "%C3%A9=&B=%2B&a=1&a%20b=x%20y&a-b=%2F~"
