"""Writes through a server that fails: the object whole or not at all, nothing left open, and no false failure."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from scripted_s3 import Fault, ScriptedS3, error_body

from torchbucket.config import MIB, RetryConfig
from torchbucket.errors import (
    ObjectChangedError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    ThrottledError,
    TransportError,
)
from torchbucket.store import RequestRecord, Store
from torchbucket.store.http.checksums import ALGORITHMS
from torchbucket.store.transport.operation import Operation
from torchbucket.store.transport.transport import Transport

Opened = Callable[..., Store]
LARGE = random.Random(5).randbytes(11 * MIB + 11)

PASSING = {
    "500": Fault(status=500, body=error_body("InternalError")),
    "503 SlowDown": Fault(status=503, body=error_body("SlowDown")),
    "429": Fault(status=429, headers={"retry-after": "0"}),
    "400 RequestTimeout": Fault(status=400, body=error_body("RequestTimeout")),
    "400 BadDigest": Fault(status=400, body=error_body("BadDigest")),
    "reset": Fault(reset_after=-1),
    "closed": Fault(close_after=-1),
    "reset, done": Fault(reset_after=-1, applied=True),
    "closed, done": Fault(close_after=-1, applied=True),
    "500, done": Fault(status=500, applied=True),
}
IN_DOCUMENT = {
    "200 with InternalError": Fault(status=200, body=error_body("InternalError")),
    "200 with SlowDown": Fault(status=200, body=error_body("SlowDown")),
    "200 with nothing": Fault(status=200, body=b"  \n "),
    "200 with half": Fault(status=200, body=b"<CompleteMultipartUploadResult><ETag>"),
}


def stream(store: Store, content: bytes, **how: bool) -> None:
    scratch = bytearray(1 << 20)
    with store.open_writer("k", **how) as writer:
        for start in range(0, len(content), len(scratch)):
            piece = content[start : start + len(scratch)]
            scratch[: len(piece)] = piece
            writer.write(memoryview(scratch)[: len(piece)])
            scratch[:] = bytes(len(scratch))


@pytest.mark.parametrize("if_absent", [False, True])
@pytest.mark.parametrize("fault", PASSING)
def test_a_put_is_tried_again(server: ScriptedS3, opened: Opened, fault: str, if_absent: bool) -> None:
    server.faults["put_object"].extend([PASSING[fault]] * 2)
    info = opened().write("k", b"content", if_absent=if_absent)
    assert server.objects == {"k": b"content"}
    assert (info.key, info.size_bytes) == ("k", 7)


# The condition is a matter of the completion alone.
@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize(
    ("kind", "if_absent"),
    [
        ("begin_upload", False),
        ("upload_part", False),
        ("complete_upload", False),
        ("complete_upload", True),
        pytest.param("begin_upload", True, marks=pytest.mark.nightly),
        pytest.param("upload_part", True, marks=pytest.mark.nightly),
    ],
)
def test_an_upload_is_tried_again(server: ScriptedS3, opened: Opened, fault: str, kind: str, if_absent: bool) -> None:
    server.faults[kind].extend([PASSING[fault]] * 2)
    stream(opened(), LARGE, if_absent=if_absent)
    assert server.objects == {"k": LARGE}
    # An upload whose answer was lost cannot be known to the client; every other is closed.
    lost = 2 if kind == "begin_upload" and "done" in fault else 0
    assert len(server.uploads) == lost
    assert server.count("upload_part") == 3 + (2 if kind == "upload_part" else 0)


@pytest.mark.parametrize("fault", IN_DOCUMENT)
@pytest.mark.parametrize("applied", [False, True])
def test_a_success_that_holds_an_error(server: ScriptedS3, opened: Opened, fault: str, applied: bool) -> None:
    spoiled = IN_DOCUMENT[fault]
    server.faults["complete_upload"].append(Fault(status=200, body=spoiled.body, applied=applied))
    stream(opened(), LARGE)
    assert server.objects == {"k": LARGE}
    assert server.uploads == {}


def test_an_empty_object_is_never_repeated_unseen(server: ScriptedS3, opened: Opened) -> None:
    """A rival's empty object is what a lock file looks like: only an answer that was lost may make it ours."""
    store = opened(concurrency=1)
    store.write("first", b"opens a connection that libcurl could use again")
    server.faults["put_object"].append(Fault(close_after=-1, applied=True))
    store.write("lock", b"", if_absent=True)
    assert server.count("put_object") == 3
    with pytest.raises(PreconditionFailedError):
        store.write("lock", b"", if_absent=True)


@pytest.mark.parametrize(
    "refusal",
    [
        Fault(status=400, body=error_body("BadDigest")),
        Fault(status=409, body=error_body("ConditionalRequestConflict")),
        Fault(status=429),
        Fault(status=503, body=error_body("SlowDown")),
        Fault(status=301, headers={"x-amz-bucket-region": "sa-east-1"}),
    ],
    ids=lambda fault: str(fault.status),
)
def test_a_refusal_hides_no_rivals_object_of_the_same_bytes(server: ScriptedS3, opened: Opened, refusal: Fault) -> None:
    """As a lock file's: only where our own write may have happened, equal bytes may be ours."""
    server.objects["k"] = b"content"
    server.faults["put_object"].append(refusal)
    with pytest.raises(PreconditionFailedError):
        opened().write("k", b"content", if_absent=True)
    assert server.count("put_object") == 2


def test_a_lost_answer_does_not_hide_a_rivals_object(server: ScriptedS3, opened: Opened) -> None:
    server.faults["put_object"].append(Fault(close_after=-1, replace_object=b"rival's"))
    with pytest.raises(PreconditionFailedError):
        opened().write("k", b"content", if_absent=True)
    assert server.objects == {"k": b"rival's"}


def test_a_lost_completion_does_not_take_anothers_object_for_its_own(server: ScriptedS3, opened: Opened) -> None:
    server.faults["complete_upload"].append(Fault(close_after=-1, applied=True))
    server.faults["head_object"].append(Fault(status=500, replace_object=LARGE[::-1]))
    with pytest.raises(StoreError, match="not open any more"):
        stream(opened(), LARGE)


REFUSED = Fault(status=412, body=error_body("PreconditionFailed"))
KMS_TAG = '"00112233445566778899aabbccddeeff{}"'  # under a KMS key a tag is no digest


@pytest.mark.parametrize("told", [True, False], ids=["with a checksum", "without a checksum"])
@pytest.mark.parametrize("content", [b"our own content", LARGE], ids=["one request", "parts"])
def test_under_a_kms_key_an_object_of_the_same_shape_is_no_proof(
    server: ScriptedS3, opened: Opened, content: bytes, told: bool
) -> None:
    """Two writers of equal sizes and part counts must not both believe that the object is theirs."""
    rival = content[::-1]
    server.part_tag = '"a-tag-that-is-no-digest"'
    kind = "complete_upload" if content is LARGE else "put_object"
    server.faults[kind].extend([Fault(close_after=-1, replace_object=rival), REFUSED])
    server.object_headers["k"] = {"etag": KMS_TAG.format("-3" if content is LARGE else "")} | crc64(rival, told=told)
    with pytest.raises(PreconditionFailedError):
        opened(sse="aws:kms").write("k", content, if_absent=True)


@pytest.mark.parametrize("content", [b"our own content", LARGE], ids=["one request", "parts"])
def test_under_a_kms_key_our_own_object_is_known_by_its_checksum(
    server: ScriptedS3, opened: Opened, content: bytes
) -> None:
    kind = "complete_upload" if content is LARGE else "put_object"
    server.faults[kind].extend([Fault(close_after=-1, applied=True), REFUSED])
    server.object_headers["k"] = {"etag": KMS_TAG.format("-3" if content is LARGE else "")} | crc64(content, told=True)
    assert opened(sse="aws:kms").write("k", content, if_absent=True).size_bytes == len(content)


def crc64(content: bytes, *, told: bool) -> dict[str, str]:
    if not told:
        return {}
    checksum = ALGORITHMS["crc64nvme"].of([content]).text
    return {"x-amz-checksum-crc64nvme": checksum, "x-amz-checksum-type": "FULL_OBJECT"}


@pytest.mark.parametrize("kind", ["begin_upload", "upload_part", "complete_upload"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_failed_upload_is_aborted(server: ScriptedS3, opened: Opened, kind: str, streamed: bool) -> None:
    server.faults[kind].append(Fault(status=403, body=error_body("AccessDenied")))
    store = opened()
    with pytest.raises(PermissionDeniedError, match=kind):
        stream(store, LARGE) if streamed else store.write("k", LARGE)
    assert server.objects == {}
    assert server.uploads == {}


def test_an_upload_that_is_slowed_down_for_ever_is_aborted(server: ScriptedS3, opened: Opened) -> None:
    server.faults["upload_part"].extend([Fault(status=503, body=error_body("SlowDown"))] * 40)
    with pytest.raises(ThrottledError, match="gave up after 3 attempts"):
        stream(opened(retry=RetryConfig(initial_s=0.001, max_attempts=3)), LARGE)
    assert server.uploads == {}
    assert server.count("abort_upload") >= 1


def test_part_two_fails_twice(server: ScriptedS3, opened: Opened, records: list[RequestRecord]) -> None:
    server.faults["upload_part"].extend([Fault(), Fault(status=500), Fault(reset_after=-1)])
    store = opened(concurrency=1)
    stream(store, LARGE)
    store.close()
    assert server.objects == {"k": LARGE}
    attempts = [record.attempt for record in records if record.operation == "upload_part"]
    assert sorted(attempts) in ([1, 1, 1, 2, 2], [1, 1, 1, 2, 3])  # the second fault may meet the retry
    assert sum(
        record.bytes_sent for record in records if record.error is None and record.operation == "upload_part"
    ) == len(LARGE)


def test_damage_that_the_server_reports_is_repaired(server: ScriptedS3, opened: Opened) -> None:
    stored = {"x-amz-checksum-crc64nvme": "AAAAAAAAAAA=", "etag": '"x"'}
    server.faults["put_object"].append(Fault(status=200, headers=stored))
    opened().write("k", b"content")
    assert server.objects == {"k": b"content"}
    assert server.count("put_object") == 2


def test_every_write_carries_its_checksum(server: ScriptedS3, opened: Opened) -> None:
    store = opened(sse="aws:kms", sse_kms_key_id="key-1", requester_pays=True)
    store.write("k", b"123456789")
    stream(store, LARGE)
    put = server.of("put_object")[0].headers
    assert put["x-amz-checksum-crc64nvme"] == "rosUhgp5mIg="  # the CRC-64/NVME of 123456789 is ae8b14860a799888
    assert put["x-amz-server-side-encryption-aws-kms-key-id"] == "key-1"
    assert all("x-amz-checksum-crc64nvme" in part.headers for part in server.of("upload_part"))
    assert server.of("begin_upload")[0].headers["x-amz-server-side-encryption"] == "aws:kms"
    assert b"<ChecksumCRC64NVME>" in server.of("complete_upload")[0].body
    assert all(seen.headers["x-amz-request-payer"] == "requester" for seen in server.seen)
    assert not any("expect" in seen.headers for seen in server.seen)


def test_anonymous_requests_have_no_signature(server: ScriptedS3, opened: Opened) -> None:
    opened(anonymous=True).write("k", b"")
    assert server.objects == {"k": b""}
    assert not any("authorization" in seen.headers or "x-amz-date" in seen.headers for seen in server.seen)


def page(*keys: str, token: str | None = None) -> bytes:
    contents = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return f"<ListBucketResult>{more}{contents}</ListBucketResult>".encode()


def test_a_listing_goes_over_pages(server: ScriptedS3, opened: Opened) -> None:
    server.pages = [page("a", "b", token="1"), page(token="2"), page("c")]
    server.faults["list_objects"].extend([Fault(status=500), Fault(close_after=-1)])
    assert [info.key for info in opened().list()] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ([page("a", "b", token="1"), page("a", "b", token="2"), page("c")], "'a' came after 'b'"),
        ([page("a", token="1"), page(token="2"), page(token="2")], "repeats a page's token"),
        ([page("b", "a")], "'a' came after 'b'"),
        ([page("a", "a")], "'a' came after 'a'"),
    ],
)
def test_a_listing_that_repeats_or_goes_backward_is_an_error(
    server: ScriptedS3, opened: Opened, pages: list[bytes], said: str
) -> None:
    server.pages = [*pages, page("z")]
    with pytest.raises(StoreError, match=said):
        list(opened().list())


@pytest.mark.parametrize(
    "body",
    [
        b"<html>a log-in page</html>",
        b"not xml",
        b"",
        b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        b"<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
        b"<ListBucketResult><Contents><Key>a</Key><Size>many</Size></Contents></ListBucketResult>",
        b'<!DOCTYPE x [<!ENTITY a "b">]><ListBucketResult><Contents><Key>&a;</Key><Size>1</Size></Contents>'
        b"</ListBucketResult>",
    ],
)
def test_a_listing_that_is_none_is_an_error(server: ScriptedS3, opened: Opened, body: bytes) -> None:
    server.pages = [body] * 3
    with pytest.raises(TransportError, match="is the endpoint an S3 service"):
        list(opened(retry=RetryConfig(initial_s=0.001, max_attempts=2)).list())


def test_an_object_overwritten_while_it_is_copied(server: ScriptedS3, opened: Opened) -> None:
    server.objects["k"] = b"source"
    server.faults["put_object"].append(Fault(status=412, body=error_body("PreconditionFailed")))
    with pytest.raises((ObjectChangedError, PreconditionFailedError), match="target"):
        opened().copy("k", "target")
    assert server.of("put_object")[0].headers["x-amz-copy-source-if-match"]


def test_a_write_from_memory_makes_few_parts_before_the_first_has_arrived(
    server: ScriptedS3, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 12 parts: so that 10,000 operations and their checksums are not made before anything is sent."""
    answered, sent = threading.Event(), threading.Semaphore(0)
    server.faults["upload_part"].extend([Fault(until=answered)] * 2)
    submit, parts = Transport.submit, []

    def noted(transport: Transport, operations: Iterable[Operation[Any]], caller: Hashable = None) -> None:
        operations = tuple(operations)
        parts.extend(operation for operation in operations if operation.name == "upload_part")
        submit(transport, operations, caller)
        sent.release()

    monkeypatch.setattr(Transport, "submit", noted)
    content = bytearray(60 * MIB)
    with ThreadPoolExecutor(1) as thread:
        written = thread.submit(opened(concurrency=2).write_from, "k", [content])
        for _ in range(5):  # the upload's beginning and the four parts that may be made
            assert sent.acquire(timeout=30)
        made = len(parts)
        answered.set()
        assert written.result(60).size_bytes == len(content)
    assert made == 4
    assert len(parts) == 12
    assert server.objects["k"] == content
