"""Batches of the JSON API, in the forms that real clients send them."""

from __future__ import annotations

import email
import json

import pytest
from gcs_json_kit import JsonDriver

BATCH = "/batch/storage/v1"
HEADERS = {"content-type": 'multipart/mixed; boundary="=====7=="'}


def batch(parts: list[str], line: str = "\r\n") -> bytes:
    """Returns a batch's body of these requests."""
    lines = []
    for index, part in enumerate(parts):
        lines += [
            "--=====7==",
            "Content-Type: application/http",
            f"Content-ID: <x+{index}>",
            "",
            part.replace("\n", line),
        ]
    return line.join([*lines, "--=====7==--"]).encode()


def answers(driver: JsonDriver, body: bytes) -> list[tuple[str, int, bytes]]:
    """Returns Content-ID, status and body of each part of a batch's answer."""
    answer = driver.call("POST", BATCH, headers=HEADERS, body=body)
    assert answer.status == 200, answer
    message = email.message_from_bytes(
        b"Content-Type: %s\r\n\r\n" % answer.headers["content-type"].encode() + answer.body
    )
    found = []
    for part in message.get_payload():
        assert isinstance(part, email.message.Message)
        payload = part.get_payload(decode=True)
        assert isinstance(payload, bytes)
        head, _, content = payload.partition(b"\r\n\r\n")
        found.append((part["Content-ID"], int(head.split()[1]), content.strip()))
    return found


@pytest.mark.parametrize("line", ["\r\n", "\n"])
def test_each_request_has_its_own_answer(line: str) -> None:
    driver = JsonDriver()
    for key in ("a", "b/c", "d"):
        driver.save(key, b"1")
    change = json.dumps({"metadata": {"x": "ü"}}, ensure_ascii=False)
    found = answers(
        driver,
        batch(
            [
                "DELETE /storage/v1/b/data/o/b%2Fc HTTP/1.1\ncontent-length: 0\n",
                "DELETE /storage/v1/b/data/o/none HTTP/1.1\n\n",
                "GET http://127.0.0.1:9000/storage/v1/b/data/o/a?fields=name HTTP/1.1\nAccept: application/json\n\n",
                f"PATCH /storage/v1/b/data/o/d HTTP/1.1\nContent-Length: {len(change.encode())}\n\n{change}",
                "GET /download/storage/v1/b/data/o/a?alt=media HTTP/1.1\n\n",
                "GET /storage/v1/b/data/o/a?alt=media HTTP/1.1\n\n",
                "nonsense",
                "DELETE /storage/v1/b/data/o/a?ifGenerationMatch=1 HTTP/1.1\n\n",
            ],
            line,
        ),
    )
    assert [entry[0] for entry in found] == [f"<response-x+{index}>" for index in range(8)]
    assert [entry[1] for entry in found] == [204, 404, 200, 200, 400, 400, 400, 412]
    assert json.loads(found[2][2]) == {"name": "a"}
    assert json.loads(found[3][2])["metadata"] == {"x": "ü"}
    assert json.loads(found[1][2])["error"]["errors"][0]["reason"] == "notFound"
    assert driver.names() == ["a", "d"]


def test_a_batch_has_a_hundred_requests_at_most() -> None:
    driver = JsonDriver()
    one = "GET /storage/v1/b/data HTTP/1.1\n\n"
    assert [status for _, status, _ in answers(driver, batch([one] * 100))] == [200] * 100
    assert driver.call("POST", BATCH, headers=HEADERS, body=batch([one] * 101)).status == 400
    assert driver.call("POST", BATCH, headers=HEADERS, body=b"").status == 400
    assert driver.call("POST", BATCH, headers={"content-type": "text/plain"}, body=batch([one])).status == 400
    assert driver.call("GET", BATCH).status == 501
