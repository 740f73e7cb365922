"""The aws-chunked decoder, fed in any pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buckettestbed.s3.aws_chunked import AwsChunkedDecoder
from buckettestbed.s3.errors import S3Error


def encoded(chunks: list[bytes], trailers: dict[str, str], *, signed: bool) -> bytes:
    """Returns a body as a client sends it."""
    extension = b";chunk-signature=" + b"0" * 64 if signed else b""
    body = b"".join(b"%x%s\r\n%s\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
    lines = b"".join(f"{name}:{value}\r\n".encode() for name, value in trailers.items())
    return body + b"0" + extension + b"\r\n" + lines + b"\r\n"


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=5),
    trailers=st.dictionaries(st.sampled_from(["x-amz-checksum-crc32", "X-Amz-Trailer-Signature"]), st.just("aGVsbG8=")),
    signed=st.booleans(),
    cuts=st.lists(st.integers(0, 400), max_size=8),
)
def test_any_cut_gives_the_same_bytes(
    chunks: list[bytes], trailers: dict[str, str], signed: bool, cuts: list[int]
) -> None:
    body = encoded(chunks, trailers, signed=signed)
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    decoder, found = AwsChunkedDecoder(), b""
    for start, stop in pairwise(places):
        assert decoder.complete is (start == len(body))
        found += b"".join(decoder.feed(body[start:stop]))
    assert decoder.complete
    assert found == b"".join(chunks)
    assert decoder.trailers == {name.lower(): value for name, value in trailers.items()}


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\nabc\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"-3\r\nabc\r\n",
        b"0\r\nno colon\r\n\r\n",
        b"0\r\n\r\nmore\r\n",
        b"3" * 9000,
        b"\r\n",
    ],
)
def test_malformed_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(S3Error) as caught:
        AwsChunkedDecoder().feed(body)
    assert caught.value.code == "MalformedTrailerError"
