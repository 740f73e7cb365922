"""Range headers against slicing of plain bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buckettestbed.s3.errors import S3Error
from buckettestbed.s3.ranges import byte_range
from buckettestbed.serving.ranges import content_range

CONTENT = bytes(range(10))


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("bytes=0-3", (0, 4)),
        ("bytes=4-4", (4, 5)),
        ("bytes=7-", (7, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)),
        ("bytes=2-99", (2, 10)),
        pytest.param("bytes=2-" + "9" * 5000, (2, 10), id="a last byte of 5000 digits"),
        pytest.param("bytes=-" + "9" * 5000, (0, 10), id="a suffix of 5000 digits"),
        pytest.param("bytes=" + "0" * 5000 + "2-4", (2, 5), id="5000 zeros before a number"),
        ("BYTES = 0 - 3", (0, 4)),
        ("bytes=5-2", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("bytes=0-1,3-4", None),
        ("items=0-1", None),
        ("bytes=٣-٤", None),
    ],
)
def test_ranges_of_ten_bytes(header: str, wanted: tuple[int, int] | None) -> None:
    assert byte_range(header, 10) == wanted


@pytest.mark.parametrize(
    ("header", "size"),
    [
        ("bytes=10-", 10),
        ("bytes=10-12", 10),
        ("bytes=-0", 10),
        ("bytes=0-0", 0),
        pytest.param("bytes=" + "9" * 5000 + "-", 10, id="a first byte of 5000 digits"),
    ],
)
def test_ranges_without_a_byte_of_the_object(header: str, size: int) -> None:
    with pytest.raises(S3Error) as caught:
        byte_range(header, size)
    assert (caught.value.code, caught.value.status) == ("InvalidRange", 416)
    assert caught.value.headers == [(b"content-range", b"bytes */%d" % size)]


@given(first=st.integers(0, 9), last=st.integers(0, 20))
def test_a_range_is_a_slice(first: int, last: int) -> None:
    span = byte_range(f"bytes={first}-{last}", len(CONTENT))
    if last < first:
        assert span is None
    else:
        assert span is not None
        assert CONTENT[span[0] : span[1]] == CONTENT[first : last + 1]
        assert content_range(*span, 10) == f"bytes {first}-{min(last, 9)}/10".encode()
