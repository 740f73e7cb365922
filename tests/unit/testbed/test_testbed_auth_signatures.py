"""Signatures of S3, checked against the examples that Amazon publishes and against botocore's signer.

*Source* of the examples: Amazon S3 API reference, authenticating requests: signature calculations for the
Authorization header, transferring the payload in one and in several chunks, with trailing headers, and query
parameters.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from buckettestbed.auth.credentials import AccessKey
from buckettestbed.auth.s3 import S3Authenticator
from buckettestbed.model.buckets import Buckets
from buckettestbed.model.memory import MemoryStorage
from buckettestbed.s3.aws_chunked import AwsChunkedDecoder
from buckettestbed.s3.errors import S3Error
from buckettestbed.s3.service import S3Service
from buckettestbed.serving.messages import Body, Request, Response, parse_query

EXAMPLE_TIME_S = 1369353600.0  # 2013-05-24T00:00:00Z
EXAMPLE_KEY = AccessKey(
    access_key_id="AKIAIOSFODNN7EXAMPLE", secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
)
EMPTY = hashlib.sha256(b"").hexdigest()
HOST = "examplebucket.s3.amazonaws.com"


async def _nothing() -> tuple[bytes, bool]:
    return b"", False


def request(method: str, target: str, headers: Mapping[str, str]) -> Request:
    path, _, query = target.partition("?")
    return Request(
        method=method,
        raw_path=path.encode(),
        raw_query=query.encode(),
        query=parse_query(query.encode()),
        headers={name.lower(): value for name, value in headers.items()},
        body=Body(_nothing),
        id="1",
    )


@dataclass
class Judge:
    """The gate before an empty S3, at a time of the test's choosing."""

    key: AccessKey = EXAMPLE_KEY
    now_s: float = EXAMPLE_TIME_S

    def __post_init__(self) -> None:
        self.service = S3Service(Buckets(MemoryStorage()), base_hosts=("s3.amazonaws.com", "localhost"))
        self.authenticator = S3Authenticator(
            self.service, keys=[self.key], region=lambda bucket: "us-east-1", now=lambda: self.now_s
        )

    def refusal(self, asked: Request) -> Response | None:
        return asyncio.run(self.authenticator.answer(asked, self.service.identify(asked)))

    def code(self, asked: Request) -> str | None:
        """Returns the code of the refusal, None where the request was let through."""
        refused = self.refusal(asked)
        if refused is None:
            return None
        assert isinstance(refused.body, bytes)
        return refused.body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()


def authorization(signed_headers: str, signature: str) -> str:
    return (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        f"SignedHeaders={signed_headers},Signature={signature}"
    )


GET_HEADERS = {
    "Host": HOST,
    "Range": "bytes=0-9",
    "x-amz-content-sha256": EMPTY,
    "x-amz-date": "20130524T000000Z",
    "Authorization": authorization(
        "host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    ),
}
PUBLISHED = {
    "object": ("GET", "/test.txt", GET_HEADERS),
    "upload": (
        "PUT",
        "/test%24file.text",
        {
            "Host": HOST,
            "Date": "Fri, 24 May 2013 00:00:00 GMT",
            "x-amz-date": "20130524T000000Z",
            "x-amz-storage-class": "REDUCED_REDUNDANCY",
            "x-amz-content-sha256": hashlib.sha256(b"Welcome to Amazon S3.").hexdigest(),
            "Authorization": authorization(
                "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
        },
    ),
    "subresource": (
        "GET",
        "/?lifecycle",
        {
            "Host": HOST,
            "x-amz-date": "20130524T000000Z",
            "x-amz-content-sha256": EMPTY,
            "Authorization": authorization(
                "host;x-amz-content-sha256;x-amz-date",
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
        },
    ),
    "listing": (
        "GET",
        "/?max-keys=2&prefix=J",
        {
            "Host": HOST,
            "x-amz-date": "20130524T000000Z",
            "x-amz-content-sha256": EMPTY,
            "Authorization": authorization(
                "host;x-amz-content-sha256;x-amz-date",
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        },
    ),
    "presigned": (
        "GET",
        "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
        "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
        {"Host": HOST},
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_examples_pass_and_nothing_beside_them(name: str) -> None:
    method, target, headers = PUBLISHED[name]
    judge = Judge()
    assert judge.code(request(method, target, headers)) is None
    assert judge.code(request("DELETE", target, headers)) == "SignatureDoesNotMatch"
    assert judge.code(request(method, target.replace("/", "/x", 1), headers)) == "SignatureDoesNotMatch"
    assert judge.code(request(method, target, {**headers, "Host": "other.s3.amazonaws.com"})) == "SignatureDoesNotMatch"
    assert judge.code(request(method, target, {**headers, "x-amz-acl": "public-read"})) == "AccessDenied"
    more = target + ("&" if "?" in target else "?") + "max-keys=3"
    assert judge.code(request(method, more, headers)) == "SignatureDoesNotMatch"


CHUNKED_HEADERS = {
    "Host": "s3.amazonaws.com",
    "x-amz-date": "20130524T000000Z",
    "x-amz-storage-class": "REDUCED_REDUNDANCY",
    "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "Content-Encoding": "aws-chunked",
    "x-amz-decoded-content-length": "66560",
    "Content-Length": "66824",
    "Authorization": authorization(
        "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;"
        "x-amz-storage-class",
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
    ),
}
TRAILING_HEADERS = {
    **{name: value for name, value in CHUNKED_HEADERS.items() if name != "Content-Length"},
    "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    "x-amz-trailer": "x-amz-checksum-crc32c",
    "Authorization": authorization(
        "content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;"
        "x-amz-trailer",
        "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
    ),
}
CHUNKED = (
    b"10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n%s\r\n"
    b"400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n%s\r\n"
    b"0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"
) % (b"a" * 65536, b"a" * 1024)
TRAILING = (
    b"10000;chunk-signature=b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2\r\n%s\r\n"
    b"400;chunk-signature=1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7\r\n%s\r\n"
    b"0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n"
    b"x-amz-checksum-crc32c:sOO8/Q==\r\n"
    b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n"
) % (b"a" * 65536, b"a" * 1024)


@pytest.mark.parametrize(
    ("headers", "body"), [(CHUNKED_HEADERS, CHUNKED), (TRAILING_HEADERS, TRAILING)], ids=["chunks", "trailer"]
)
def test_chunks_and_trailers_of_the_published_examples(headers: dict[str, str], body: bytes) -> None:
    def decode(sent: bytes) -> bytes:
        asked = request("PUT", "/examplebucket/chunkObject.txt", headers)
        assert Judge().code(asked) is None
        decoder = AwsChunkedDecoder(asked.chunk_signatures)
        return b"".join(decoder.feed(sent))

    assert decode(body) == b"a" * 66560
    # Each signature, each chunk and the trailer are covered.
    changes = [(b"aaa\r\n", b"aab\r\n"), (b"signature=0", b"signature=1"), (b"signature=1", b"signature=0")]
    changes += [(b"\r\n0;chunk-signature=", b"\r\n0;chunk-x="), (b"c:sOO8/Q==", b"c:tOO8/Q==")]
    changes += [(b"x-amz-trailer-signature:d", b"x-amz-trailer-signature:\xff"), (b"x-amz-trailer-signature", b"x-y")]
    applicable = [(old, new) for old, new in changes if old in body]
    assert len(applicable) >= 3
    for old, new in applicable:
        with pytest.raises(S3Error) as caught:
            decode(body.replace(old, new, 1))
        assert caught.value.code == "SignatureDoesNotMatch", old


KEY = AccessKey(access_key_id="AKIDEXAMPLE", secret_access_key="a/secret+key=")
NASTY = st.text(
    st.one_of(st.sampled_from("/ +%~&=?#*'()!@:;,.äß日"), st.characters(codec="utf-8", exclude_characters="\x00")),
    max_size=12,
)


def signed_by_botocore(
    method: str, url: str, headers: Mapping[str, str], *, presigned: bool = False
) -> tuple[str, dict[str, str]]:
    """Returns the target and the headers of a request as botocore signs it, now."""
    made = AWSRequest(method=method, url=url, headers=dict(headers))
    signer = botocore.auth.S3SigV4QueryAuth if presigned else botocore.auth.S3SigV4Auth
    options = {"expires": 60} if presigned else {}
    signer(Credentials(KEY.access_key_id, KEY.secret_access_key), "s3", "us-east-1", **options).add_auth(made)
    parts = urlsplit(made.url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    return target, {"Host": parts.netloc, **dict(made.headers.items())}


@given(key=NASTY, parameters=st.lists(st.tuples(st.sampled_from(["prefix", "marker", "uploads"]), NASTY), max_size=3))
def test_whatever_botocore_signs_is_accepted(key: str, parameters: list[tuple[str, str]]) -> None:
    query = "&".join(f"{name}={quote(value, safe='~')}" for name, value in parameters)
    url = f"http://127.0.0.1:9000/data/{quote(key, safe='/~')}" + (f"?{query}" if query else "")
    judge = Judge(key=KEY, now_s=time.time())
    for presigned in (False, True):
        target, headers = signed_by_botocore("GET", url, {"x-amz-meta-a": "two  blanks"}, presigned=presigned)
        assert judge.code(request("GET", target, headers)) is None
        assert judge.code(request("PUT", target, headers)) == "SignatureDoesNotMatch"


def changed(name: str, value: str | None) -> dict[str, str]:
    """Returns the headers of the published GET with one changed or left out."""
    headers = {**GET_HEADERS, name: value or ""}
    if value is None:
        del headers[name]
    return headers


AUTHORIZATION = GET_HEADERS["Authorization"]


@pytest.mark.parametrize(
    ("headers", "status", "code", "said"),
    [
        (changed("Authorization", None), 403, "AccessDenied", "Access Denied"),
        (changed("Authorization", "Bearer x"), 400, "InvalidArgument", "AWS4-HMAC-SHA256"),
        (changed("Authorization", "AWS a:b"), 400, "InvalidRequest", "version 4"),
        (changed("Authorization", "AWS4-HMAC-SHA256 x"), 400, "AuthorizationHeaderMalformed", "Credential"),
        (changed("Authorization", AUTHORIZATION.replace("host;", "")), 400, "AuthorizationHeaderMalformed", "host"),
        (changed("Authorization", AUTHORIZATION.replace("/s3/", "/x/")), 400, "AuthorizationHeaderMalformed", "s3"),
        (changed("Authorization", AUTHORIZATION[:-1] + "é"), 400, "AuthorizationHeaderMalformed", "hexadecimal"),
        (changed("Authorization", AUTHORIZATION.replace("524/", "525/")), 400, "AuthorizationHeaderMalformed", "date"),
        (
            changed("Authorization", AUTHORIZATION.replace("us-e", "us-w")),
            400,
            "AuthorizationHeaderMalformed",
            "us-east-1",
        ),
        (changed("Authorization", AUTHORIZATION.replace("AKIA", "AKIB")), 403, "InvalidAccessKeyId", "AKIB"),
        (changed("Authorization", AUTHORIZATION[:-1] + "0"), 403, "SignatureDoesNotMatch", "CanonicalRequest"),
        (changed("x-amz-date", "20130524T001501Z"), 403, "RequestTimeTooSkewed", "900000"),
        (changed("x-amz-date", "yesterday"), 400, "AuthorizationHeaderMalformed", "20261128T120000Z"),
        (changed("x-amz-date", "20130524T990000Z"), 400, "AuthorizationHeaderMalformed", "does not exist"),
        (changed("x-amz-date", None), 403, "AccessDenied", "Date"),
        (
            changed("x-amz-date", None) | {"date": f"Mon, 01 Jan {'9' * 20} 00:00:00 GMT"},
            403,
            "AccessDenied",
            "Date",
        ),
        (changed("x-amz-content-sha256", None), 400, "InvalidRequest", "x-amz-content-sha256"),
        (changed("x-amz-content-sha256", "abc"), 400, "InvalidArgument", "UNSIGNED-PAYLOAD"),
        (changed("x-amz-security-token", "t"), 400, "InvalidToken", "token is malformed"),
    ],
)
def test_refusals_of_signed_headers(headers: dict[str, str], status: int, code: str, said: str) -> None:
    refused = Judge().refusal(request("GET", "/test.txt", headers))
    assert refused is not None
    assert isinstance(refused.body, bytes)
    document = refused.body.decode()
    assert (refused.status, f"<Code>{code}</Code>" in document) == (status, True), document
    assert said in document
    assert EXAMPLE_KEY.secret_access_key not in document


@pytest.mark.parametrize(
    ("old", "new", "now_s", "code"),
    [
        ("", "", 86400.0, None),
        ("", "", 86401.0, "AccessDenied"),
        ("", "", -901.0, "AccessDenied"),
        ("Expires=86400", "Expires=604801", 0.0, "AuthorizationQueryParametersError"),
        ("Expires=86400", "Expires=0000000000009", 0.0, "AuthorizationQueryParametersError"),
        ("SignedHeaders=host", "SignedHeaders=host%3B%E6%97%A5", 0.0, "AuthorizationQueryParametersError"),
        ("Expires=86400", "Expires=soon", 0.0, "AuthorizationQueryParametersError"),
        ("&X-Amz-Date=20130524T000000Z", "", 0.0, "AuthorizationQueryParametersError"),
        ("AWS4-HMAC-SHA256", "AWS5", 0.0, "AuthorizationQueryParametersError"),
        ("us-east-1", "us-west-1", 0.0, "AuthorizationQueryParametersError"),
        ("Expires=86400", "Expires=86399", 0.0, "SignatureDoesNotMatch"),
    ],
)
def test_presigned_addresses(old: str, new: str, now_s: float, code: str | None) -> None:
    method, target, headers = PUBLISHED["presigned"]
    judge = Judge(now_s=EXAMPLE_TIME_S + now_s)
    assert judge.code(request(method, target.replace(old, new), headers)) == code
    both = request(method, target, {**headers, "Authorization": AUTHORIZATION})
    assert judge.code(both) == "InvalidArgument"


_PARAMETERS = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders")
_TYPICAL = (
    "AWS4-HMAC-SHA256",
    "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request",
    "20130524T000000Z",
    "9",
    "host",
)


@given(
    parameters=st.fixed_dictionaries(
        {name: st.one_of(st.just(usual), NASTY) for name, usual in zip(_PARAMETERS, _TYPICAL, strict=True)}
    ),
    more=st.dictionaries(st.sampled_from(["X-Amz-Signature", "AWSAccessKeyId", "Expires", "Signature"]), NASTY),
    headers=st.dictionaries(
        st.sampled_from(["authorization", "x-amz-date", "date", "x-amz-content-sha256", "x-amz-security-token"]),
        st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=30),
    ),
)
def test_nothing_odd_is_accepted_or_breaks_the_gate(
    parameters: dict[str, str], more: dict[str, str], headers: dict[str, str]
) -> None:
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in (parameters | more).items())
    assert Judge().code(request("GET", f"/data/key?{query}", {"Host": HOST, **headers}))
    only_headers = {"Host": HOST, "Authorization": "AWS4-HMAC-SHA256 " + headers.pop("authorization", ""), **headers}
    assert Judge().code(request("GET", "/data/key", only_headers))


@pytest.mark.parametrize("host", ["127.0.0.1:9000", "data.localhost:9000"])
def test_presigned_addresses_of_version_2(host: str) -> None:
    path = "/data/a//b%20c" if host.startswith("127") else "/a//b%20c"
    token = "a+session/token=="
    key = AccessKey(access_key_id="ASIA", secret_access_key="secret", session_token=token, expires_s=2e9)
    made = AWSRequest(method="GET", url=f"http://{host}{path}?response-expires=x%20y&max-keys=3")
    made.context["signing"] = {"bucket": "data"}
    if not host.startswith("127"):
        made.auth_path = "/data" + path
    botocore.auth.HmacV1QueryAuth(Credentials("ASIA", "secret", token), expires=60).add_auth(made)
    parts = urlsplit(made.url)
    target, headers = f"{parts.path}?{parts.query}", {"Host": host}
    judge = Judge(key=key, now_s=time.time())
    assert judge.code(request("GET", target, headers)) is None
    assert judge.code(request("PUT", target, headers)) == "SignatureDoesNotMatch"
    assert judge.code(request("GET", target.replace("x%20y", "z"), headers)) == "SignatureDoesNotMatch"
    assert judge.code(request("GET", target.replace("Signature=", "S="), headers)) == "AccessDenied"
    judge.now_s += 62.0
    assert judge.code(request("GET", target, headers)) == "AccessDenied"


def test_a_temporary_key_is_known_with_its_token_only_and_no_refusal_shows_it() -> None:
    token = "a+session/token=="
    key = AccessKey(access_key_id="ASIA", secret_access_key="secret", session_token=token, expires_s=time.time() + 60)
    judge = Judge(key=key, now_s=time.time())

    def code(session_token: str | None, *, presigned: bool, secret: str = "secret") -> str | None:
        made = AWSRequest(method="GET", url="http://127.0.0.1/data/key")
        signer = botocore.auth.S3SigV4QueryAuth if presigned else botocore.auth.S3SigV4Auth
        signer(Credentials("ASIA", secret, session_token), "s3", "us-east-1").add_auth(made)
        parts = urlsplit(made.url)
        asked = request("GET", f"{parts.path}?{parts.query}", {"Host": parts.netloc, **dict(made.headers.items())})
        refused = judge.refusal(asked)
        if refused is not None:
            assert isinstance(refused.body, bytes)
            assert token not in refused.body.decode()
            assert quote(token, safe="") not in refused.body.decode()
        return judge.code(asked)

    for presigned in (False, True):
        assert code(token, presigned=presigned) is None
        assert code(None, presigned=presigned) == "InvalidAccessKeyId"
        assert code("another", presigned=presigned) == "InvalidToken"
        assert code(token, presigned=presigned, secret="another") == "SignatureDoesNotMatch"
    judge.now_s += 61
    assert code(token, presigned=False) == "ExpiredToken"
