"""The gate before GCS: access tokens, the token endpoint, signed URLs, public buckets; at a time of the test's
choosing."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from google.auth import crypt, jwt
from google.cloud.storage._signing import generate_signed_url_v2, generate_signed_url_v4
from google.oauth2 import service_account

from buckettestbed.auth.credentials import EXPIRED, OWNER, VIEWER
from buckettestbed.auth.required import authenticated_gcs
from buckettestbed.auth.throwaway import ThrowAwayCredentials
from buckettestbed.gcs.service import GcsService
from buckettestbed.model.buckets import Buckets
from buckettestbed.model.memory import MemoryStorage
from buckettestbed.serving.messages import Body, Request, Response, parse_query

TOKEN_URI = "http://127.0.0.1:9001/token"
LIFETIME_S = 100.0
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SCOPE = "https://www.googleapis.com/auth/"
OBJECT = "/storage/v1/b/private/o/key"


class Bank:
    """GCS with two buckets, `private` and `open`, and credentials demanded."""

    def __init__(self, made: ThrowAwayCredentials) -> None:
        self.now_s = datetime.now(UTC).timestamp()
        self.made = made
        buckets = Buckets(MemoryStorage())
        for name in ("private", "open"):
            buckets.create_bucket(name)
        service = GcsService(buckets, base_hosts=("localhost",))
        self.dialect = authenticated_gcs(service, made, public_buckets=["open"], now=lambda: self.now_s)

    def ask(
        self, method: str, target: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> tuple[Request, Response]:
        async def receive() -> tuple[bytes, bool]:
            return body, False

        path, _, query = target.partition("?")
        asked = Request(
            method=method,
            raw_path=path.encode(),
            raw_query=query.encode(),
            query=parse_query(query.encode()),
            headers={"host": "127.0.0.1:9001", "content-length": str(len(body)), **(headers or {})},
            body=Body(receive, length_bytes=len(body)),
            id="1",
        )
        return asked, asyncio.run(self.dialect.answer(asked, self.dialect.identify(asked)))

    def with_token(self, token: str, method: str = "GET", target: str = OBJECT) -> tuple[int, str]:
        """Returns status and reason (JSON API) or code (XML API)."""
        return refusal(self.ask(method, target, headers={"authorization": f"Bearer {token}"})[1])

    def assertion(self, account: str = OWNER, **changed: Any) -> str:
        """Returns a JWT as google-auth makes it, with claims changed or, by None, left out."""
        fields = json.loads(self.made.credentials.service_accounts[account].read_text())
        claims = {
            "iss": fields["client_email"],
            "aud": TOKEN_URI,
            "iat": int(self.now_s),
            "exp": int(self.now_s) + 3600,
            "scope": SCOPE + "devstorage.full_control",
            **changed,
        }
        signer = crypt.RSASigner.from_service_account_info(fields)
        return jwt.encode(signer, {name: value for name, value in claims.items() if value is not None}).decode()

    def grant(self, assertion: str, **changed: str) -> tuple[int, dict[str, Any]]:
        form = urlencode({"grant_type": GRANT, "assertion": assertion, **changed})
        response = self.ask("POST", "/token", body=form.encode())[1]
        assert isinstance(response.body, bytes)
        return response.status, json.loads(response.body)


def refusal(response: Response) -> tuple[int, str]:
    assert isinstance(response.body, bytes)
    if response.body.startswith(b"{"):
        document = json.loads(response.body)
        error = document.get("error", {})
        return response.status, error["errors"][0]["reason"] if isinstance(error, dict) and error else ""
    return response.status, response.body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()


@pytest.fixture(scope="module")
def made() -> Iterator[ThrowAwayCredentials]:
    credentials = ThrowAwayCredentials(token_uri=TOKEN_URI, token_lifetime_s=LIFETIME_S)
    yield credentials
    credentials.close()
    assert not credentials.folder.exists()


@pytest.fixture
def bank(made: ThrowAwayCredentials) -> Bank:
    return Bank(made)


def test_the_files_are_their_owners_alone_and_no_repr_has_a_secret(made: ThrowAwayCredentials) -> None:
    files = list(made.folder.iterdir())
    assert len(files) == 4
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert made.folder.stat().st_mode & 0o777 == 0o700
    shown = repr(made.credentials)
    secrets = [*made.credentials.tokens.values()]
    for key in made.credentials.access_keys.values():
        secrets += [key.secret_access_key, key.session_token or key.secret_access_key]
    assert len(set(secrets)) == 9
    assert not [secret for secret in secrets if secret in shown]


def test_no_credentials_are_refused_by_each_api_in_its_way(bank: Bank) -> None:
    _, response = bank.ask("GET", OBJECT)
    assert refusal(response) == (401, "required")
    assert dict(response.headers)[b"www-authenticate"].startswith(b"Bearer realm=")
    assert refusal(bank.ask("GET", "/private/key")[1]) == (403, "AccessDenied")
    assert refusal(bank.ask("GET", OBJECT, headers={"authorization": "Basic eDp5"})[1]) == (401, "authError")


def test_tokens_known_from_the_start(bank: Bank) -> None:
    tokens = bank.made.credentials.tokens
    assert bank.with_token(tokens[OWNER])[0] == 404
    assert bank.with_token(tokens[OWNER], "DELETE", "/private/key")[0] == 404
    assert bank.with_token(tokens[VIEWER])[0] == 404
    assert bank.with_token(tokens[VIEWER], "DELETE") == (403, "forbidden")
    assert bank.with_token(tokens[VIEWER], "PUT", "/private/key") == (403, "AccessDenied")
    for token in (tokens[EXPIRED], "unknown", "a.b.c", "é"):
        assert bank.with_token(token) == (401, "authError"), token
        assert bank.with_token(token, "GET", "/private/key") == (401, "AuthenticationRequired"), token


def test_public_buckets_may_be_read_by_anyone_and_no_more(bank: Bank) -> None:
    for target in ("/storage/v1/b/open/o/key", "/open/key"):
        asked, response = bank.ask("GET", target)
        assert (response.status, asked.may_write) == (404, False)
    assert bank.ask("GET", "/open?list-type=2")[1].status == 200
    assert bank.ask("GET", "/open?uploads")[1].status == 403
    assert bank.ask("DELETE", "/storage/v1/b/open/o/key")[1].status == 401
    assert bank.ask("PUT", "/open/key")[1].status == 403


def test_a_token_is_granted_and_expires(bank: Bank) -> None:
    status, fields = bank.grant(bank.assertion())
    assert (status, fields["expires_in"], fields["token_type"]) == (200, LIFETIME_S, "Bearer")
    token = fields["access_token"]
    assert bank.with_token(token, "DELETE", "/private/key")[0] == 404
    assert bank.grant(bank.assertion())[1]["access_token"] != token
    bank.now_s += LIFETIME_S - 1
    assert bank.with_token(token)[0] == 404
    bank.now_s += 1
    assert bank.with_token(token) == (401, "authError")


@pytest.mark.parametrize(
    ("account", "scope"), [(VIEWER, "cloud-platform"), (OWNER, "devstorage.read_only"), (OWNER, "bigquery")]
)
def test_a_token_may_no_more_than_its_account_and_its_scope(bank: Bank, account: str, scope: str) -> None:
    token = bank.grant(bank.assertion(account, scope=SCOPE + scope))[1]["access_token"]
    assert bank.with_token(token)[0] == 404
    assert bank.with_token(token, "DELETE") == (403, "forbidden")


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"iss": "stranger@x"}, "invalid_grant", "account not found"),
        ({"aud": "http://elsewhere/token"}, "invalid_grant", TOKEN_URI),
        ({"aud": None}, "invalid_grant", TOKEN_URI),
        ({"exp": 1.0}, "invalid_grant", "exp"),
        ({"iat": 0}, "invalid_grant", "at most 3600 s"),
        ({"iat": 1e11, "exp": 1e11 + 60}, "invalid_grant", "iat"),
        ({"exp": float("nan")}, "invalid_grant", "at most"),
        ({"exp": "tomorrow"}, "invalid_grant", "in seconds"),
        ({"exp": None}, "invalid_grant", "in seconds"),
        ({"scope": None}, "invalid_scope", "no scope"),
    ],
)
def test_assertions_that_are_refused(bank: Bank, changed: dict[str, Any], error: str, said: str) -> None:
    status, fields = bank.grant(bank.assertion(**changed))
    assert (status, fields["error"]) == (400, error)
    assert said in fields["error_description"]


def test_assertions_that_nobody_signed(bank: Bank) -> None:
    def part(fields: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()

    header, claims, signature = bank.assertion().split(".")
    other = bank.assertion(VIEWER).split(".")[2]
    forged = [f"{header}.{claims}.{other}", f"{header}.{claims}.", f"{header}.{claims}"]
    forged += [f"{part({'alg': 'none'})}.{claims}.", f"{part({'alg': 'HS256'})}.{claims}.{signature}"]
    forged += [f"{part({'alg': 'RS256', 'kid': 'x'})}.{claims}.{signature}", f"{header}.W10.{signature}", "!.!.!", "é"]
    forged += [f"{header}.{part(parse_claims(claims) | {'scope': 'more'})}.{signature}"]
    for assertion in forged:
        status, fields = bank.grant(assertion)
        assert (status, fields["error"]) == (400, "invalid_grant"), assertion
        assert assertion == "é" or signature not in fields["error_description"]
    assert bank.grant("x", grant_type="password")[1]["error"] == "unsupported_grant_type"
    assert bank.grant("")[1]["error"] == "invalid_request"
    for body in (b"\xff", b"x" * 70_000):
        assert bank.ask("POST", "/token", body=body)[1].status == 400


def parse_claims(part: str) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return decoded


def test_a_jwt_that_an_account_signs_for_itself_is_a_token(bank: Bank) -> None:
    assert bank.with_token(bank.assertion())[0] == 404
    assert bank.with_token(bank.assertion(scope=None, aud="https://storage.googleapis.com/"))[0] == 404
    assert bank.with_token(bank.assertion(scope=None)) == (401, "authError")
    assert bank.with_token(bank.assertion(VIEWER), "DELETE") == (403, "forbidden")
    token = bank.assertion()
    bank.now_s += 3601
    assert bank.with_token(token) == (401, "authError")


def signed_url(path: Path, version: int, method: str = "GET", *, key: str = "a//b%20c%2Bd", **options: Any) -> str:
    """Returns the target of a URL that google-cloud-storage has signed, valid for a minute."""
    credentials = service_account.Credentials.from_service_account_file(str(path))
    generate = generate_signed_url_v2 if version == 2 else generate_signed_url_v4
    url = generate(
        credentials,
        f"/private/{key}",
        datetime.fromtimestamp(datetime.now(UTC).timestamp() + 60, UTC),
        api_access_endpoint="http://127.0.0.1:9001",
        method=method,
        **options,
    )
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


@pytest.mark.parametrize("version", [2, 4])
def test_signed_urls(bank: Bank, version: int) -> None:
    accounts = bank.made.credentials.service_accounts
    target = signed_url(accounts[OWNER], version, response_type="text/x y")
    assert refusal(bank.ask("GET", target)[1]) == (404, "NoSuchKey")
    assert refusal(bank.ask("PUT", target)[1]) == (403, "SignatureDoesNotMatch")
    assert refusal(bank.ask("GET", target.replace("/private/", "/open/"))[1]) == (403, "SignatureDoesNotMatch")
    with_header = signed_url(accounts[OWNER], version, "PUT", headers={"x-goog-meta-a": "b"})
    assert bank.ask("PUT", with_header, headers={"x-goog-meta-a": "b"})[1].status == 200
    assert refusal(bank.ask("PUT", with_header, headers={"x-goog-meta-a": "c"})[1]) == (403, "SignatureDoesNotMatch")
    assert refusal(bank.ask("PUT", signed_url(accounts[VIEWER], version, "PUT"))[1]) == (403, "AccessDenied")
    bank.now_s += 70
    assert refusal(bank.ask("GET", target)[1]) == (400, "ExpiredToken")


@pytest.mark.parametrize(
    ("version", "old", "new", "status", "code"),
    [
        (4, "default%40", "stranger%40", 403, "AccessDenied"),
        (4, "GOOG4-RSA-SHA256", "GOOG4-HMAC-SHA256", 400, "InvalidArgument"),
        (4, "X-Goog-Signature=", "X-Goog-Signature=zz", 400, "InvalidArgument"),
        (4, "SignedHeaders=host", "SignedHeaders=host%3B%E6%97%A5", 400, "InvalidArgument"),
        (4, "X-Goog-Expires=", "X-Goog-Expires=99999999", 400, "InvalidArgument"),
        (2, "default%40", "stranger%40", 403, "AccessDenied"),
        (2, "&Signature=", "&Signature=%C3%A9", 400, "InvalidArgument"),
        (2, "Expires=", "Expires=x", 400, "InvalidArgument"),
    ],
)
def test_signed_urls_that_are_wrong(bank: Bank, version: int, old: str, new: str, status: int, code: str) -> None:
    target = signed_url(bank.made.credentials.service_accounts[OWNER], version)
    assert old in target
    assert refusal(bank.ask("GET", target.replace(old, new))[1]) == (status, code)


def test_a_signed_url_is_not_valid_before_its_time(bank: Bank) -> None:
    target = signed_url(bank.made.credentials.service_accounts[OWNER], 4)
    bank.now_s -= 1000
    assert refusal(bank.ask("GET", target)[1]) == (403, "AccessDenied")


def batch(*calls: str) -> dict[str, Any]:
    """Returns headers and body of a batch."""
    parts = "".join(f"--b\r\nContent-Type: application/http\r\n\r\n{call} HTTP/1.1\r\n\r\n\r\n" for call in calls)
    return {"headers": {"content-type": "multipart/mixed; boundary=b"}, "body": f"{parts}--b--".encode()}


def test_the_parts_of_a_batch_are_judged_one_by_one(bank: Bank) -> None:
    tokens = bank.made.credentials.tokens
    sent = batch(f"GET {OBJECT}", f"DELETE {OBJECT}", "GET /storage/v1/b/private")
    for name, statuses in ((OWNER, [404, 404, 200]), (VIEWER, [404, 403, 200])):
        headers = {**sent["headers"], "authorization": f"Bearer {tokens[name]}"}
        answer = bank.ask("POST", "/batch/storage/v1", headers=headers, body=sent["body"])[1].body
        assert isinstance(answer, bytes)
        assert [int(status) for status in re.findall(rb"HTTP/1.1 (\d+)", answer)] == statuses
    assert bank.ask("POST", "/batch/storage/v1", **sent)[1].status == 401


def test_a_sessions_address_is_a_credential(bank: Bank) -> None:
    owner = {"authorization": f"Bearer {bank.made.credentials.tokens[OWNER]}"}
    start = "/upload/storage/v1/b/private/o?uploadType=resumable&name=key"
    assert bank.ask("POST", start)[1].status == 401
    opened = bank.ask("POST", start, headers=owner)[1]
    location = dict(opened.headers)[b"location"].decode().partition("9001")[2]
    assert bank.ask("PUT", location, headers={"content-range": "bytes 0-3/4"}, body=b"body")[1].status == 200
    strange = location.partition("upload_id=")[0] + "upload_id=x"
    assert bank.ask("PUT", strange, headers={"content-range": "bytes 0-3/4"}, body=b"body")[1].status in (404, 410)


@pytest.mark.parametrize(("name", "granted"), [(OWNER, {"get", "delete"}), (VIEWER, {"get"})])
def test_permissions_are_told_as_they_are(bank: Bank, name: str, granted: set[str]) -> None:
    token = bank.made.credentials.tokens[name]
    target = (
        "/storage/v1/b/private/iam/testPermissions?permissions=storage.objects.get&permissions=storage.objects.delete"
    )
    answer = bank.ask("GET", target, headers={"authorization": f"Bearer {token}"})[1].body
    assert isinstance(answer, bytes)
    assert {permission.rpartition(".")[2] for permission in json.loads(answer)["permissions"]} == granted
