"""Pages of S3's listing: read by pattern or by parser with one result, and refused where they are none."""

from __future__ import annotations

from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchbucket import StoreError
from torchbucket.store.http.xml import MalformedAnswerError
from torchbucket.store.list_page import check_keys, infos_of
from torchbucket.store.protocol import ListedPage
from torchbucket.store.s3.listing import listed_page

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
ETAG = "&quot;d41d8cd98f00b204e9800998ecf8427e&quot;"
TIME = "2026-11-28T04:03:52.000Z"
KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12)


def list_page(body: bytes) -> ListedPage:
    return listed_page(body, start_after="")[0]


def entry(key: str, size: object = 7, *, more: str = "") -> str:
    return (
        f"<Contents><Key>{key}</Key><LastModified>{TIME}</LastModified><ETag>{ETAG}</ETag>{more}<Size>{size}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )


def page(*entries: str, encoding: str | None = "url", token: str | None = None, tail: str = "") -> bytes:
    top = "" if encoding is None else f"<EncodingType>{encoding}</EncodingType>"
    top += "<IsTruncated>true</IsTruncated>" if token is not None else "<IsTruncated>false</IsTruncated>"
    if token:
        top += f"<NextContinuationToken>{token}</NextContinuationToken>"
    return f"{HEAD}<Name>b</Name>{top}{''.join(entries)}{tail}</ListBucketResult>".encode()


@given(st.lists(st.tuples(KEYS, st.integers(0, 1 << 45)), min_size=1, max_size=5))
def test_names_come_back_from_every_way_of_writing_them(objects):
    keys, sizes = [key for key, _ in objects], [size for _, size in objects]
    for encode in (lambda key: quote(key, safe="/"), lambda key: quote(key, safe="/").replace("%20", "+")):
        found = list_page(page(*(entry(encode(key), size) for key, size in objects)))
        assert (found.keys, found.sizes_bytes) == (keys, sizes)
    found = list_page(page(*(entry(escape(key), size) for key, size in objects), encoding=None))
    assert (found.keys, found.sizes_bytes) == (keys, sizes)


@pytest.mark.parametrize(
    ("form", "more"),
    [
        ("checksums", "<ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>"),
        ("owner", ""),
        ("unknown element", "<RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress></RestoreStatus>"),
        ("order", ""),
        ("comment", "<!-- between -->"),
    ],
)
def test_every_servers_form_gives_the_same_page(form, more):
    entries = [entry(f"k/{i}", i, more=more) for i in range(3)]
    if form == "owner":
        owner = "<Owner><ID>1</ID><DisplayName>me</DisplayName></Owner></Contents>"
        entries = [text.replace("</Contents>", owner) for text in entries]
    if form == "order":
        entries = [f"<Contents><Size>{i}</Size><ETag>{ETAG}</ETag><Key>k/{i}</Key></Contents>" for i in range(3)]
    found = list_page(page(*entries, token="t"))
    assert (found.keys, found.sizes_bytes, found.resume_after, found.complete) == (
        ["k/0", "k/1", "k/2"],
        [0, 1, 2],
        "k/2",
        False,
    )
    assert found.versions == ['"d41d8cd98f00b204e9800998ecf8427e"'] * 3
    times = [info.last_modified_s for info in infos_of(found)]
    assert times == ([None] * 3 if form == "order" else [1795838632.0] * 3)


def test_what_looks_like_an_entry_and_is_none_is_not_listed():
    hidden = "<!-- " + entry("not/there") + " -->"
    found = list_page(page(entry("a"), hidden, entry("b"), "<Other>" + "x" + "</Other>"))
    assert found.keys == ["a", "b"]
    found = list_page(page(entry("a"), "<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes>", entry("b")))
    assert found.keys == ["a", "b"]


def test_an_empty_page_has_no_names():
    found, token = listed_page(page(), start_after="a")
    assert (found.keys, found.complete, found.resume_after, token) == ([], True, "a", None)
    found, token = listed_page(page(token="t"), start_after="a")
    assert (found.keys, found.complete, found.resume_after, token) == ([], False, "a", "t")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not xml",
        page(entry("a"))[:-5],
        page(entry("a")).replace(b"<Size>7</Size>", b""),
        page(entry("a", "-1")),
        page(entry("a", "1.5")),
        page(entry("a", "\u0663")),  # a digit, and no number that S3 writes
        page("<Contents><Size>1</Size></Contents>"),
        page(entry("%FF")),
        page(entry("a")).replace(b"<Name>b", b"<Name>\xff"),
        page(entry("a"), token=""),
        page(entry("a")).replace(b"ListBucketResult", b"Error"),
        page(entry("a")).replace(b"<ListBucket", b'<!DOCTYPE x [<!ENTITY e "e">]><ListBucket'),
        page(entry("a"), tail="<Unclosed>"),
        page(entry("a"), entry("b").replace("</Contents>", "", 1)),
    ],
)
def test_an_answer_that_is_no_page_is_refused(body):
    with pytest.raises(MalformedAnswerError):
        list_page(body)


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        (["p/b", "p/a"], "'p/a' came after 'p/b'"),
        (["p/b", "p/b"], "'p/b' came after 'p/b'"),
        (["p/a"], "'p/a' came after 'p/a'"),
        (["p/0"], "'p/0' came after 'p/a'"),
        (["p/b", "q"], "'q' came, which does not begin with 'p/'"),
        (["p/b", "p/\ud800"], "not valid Unicode"),
    ],
)
def test_keys_that_repeat_go_backward_or_leave_the_prefix_are_refused(keys, wrong):
    with pytest.raises(StoreError, match=wrong) as raised:
        check_keys(keys, prefix="p/", after="p/a", uri="s3://b/p/")
    assert raised.value.operation == "list_objects"
