"""What was removed takes no memory, however it was written: a sweep writes many times what there is."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from asgi_driver import S3_PORT
from gcs_json_kit import JsonDriver, document_of

BODY_BYTES = 6 << 20  # above what a part must have
TIMES = 3


def put(driver: JsonDriver, body: bytes) -> None:
    assert driver.ask("PUT", "/data/key", body=body, port=S3_PORT).status == 200


def in_parts(driver: JsonDriver, body: bytes) -> None:
    upload = driver.ask("POST", "/data/key", "uploads").xml.findtext("UploadId")
    part = driver.ask("PUT", "/data/key", f"partNumber=1&uploadId={upload}", body=body)
    listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['etag']}</ETag></Part>"
    document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    assert driver.ask("POST", "/data/key", f"uploadId={upload}", body=document).status == 200


def given_up(driver: JsonDriver, body: bytes) -> None:
    put(driver, body)
    upload = driver.ask("POST", "/data/key", "uploads").xml.findtext("UploadId")
    assert driver.ask("PUT", "/data/key", f"partNumber=1&uploadId={upload}", body=body).status == 200
    assert driver.ask("DELETE", "/data/key", f"uploadId={upload}").status == 204


def media(driver: JsonDriver, body: bytes) -> None:
    driver.save("key", body)


def in_a_session(driver: JsonDriver, body: bytes) -> None:
    done = document_of(driver.send(driver.start("key"), body))
    assert done["size"] == str(BODY_BYTES)


def in_a_session_that_is_cancelled(driver: JsonDriver, body: bytes) -> None:
    put(driver, body)
    session = driver.start("key")
    assert driver.send(session, body[: 4 << 20], content_range=f"bytes 0-{(4 << 20) - 1}/*").status == 308
    assert driver.send(session, method="DELETE").status == 499


def copied(driver: JsonDriver, body: bytes) -> None:
    driver.save("source", body)
    assert driver.call("POST", driver.of("source", "/rewriteTo/b/data/o/key")).status == 200
    assert driver.call("DELETE", driver.of("source")).status == 204


def over_and_over(driver: JsonDriver, body: bytes) -> None:
    for _ in range(3):
        driver.save("key", body)


@pytest.mark.parametrize(
    "write", [put, in_parts, given_up, media, in_a_session, in_a_session_that_is_cancelled, copied, over_and_over]
)
def test_what_was_removed_takes_no_memory(write: Callable[[JsonDriver, bytes], None]) -> None:
    driver = JsonDriver()
    tracemalloc.start()
    try:
        for number in range(TIMES):
            write(driver, bytes([number]) * BODY_BYTES)
            assert driver.call("DELETE", driver.of("key")).status == 204
        gc.collect()
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 2 * BODY_BYTES
