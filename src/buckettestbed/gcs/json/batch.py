"""Batches: up to 100 requests in one body of `multipart/mixed`, each answered for itself.

*Source*: Cloud Storage documentation, sending batch requests.
"""

import email.parser
import email.policy
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from buckettestbed.gcs.json.call import Call
from buckettestbed.gcs.json.errors import JsonError, error_response
from buckettestbed.gcs.json.related import boundary_of
from buckettestbed.serving.messages import Body, Request, Response, parse_query

__all__ = ["CALLS_LIMIT", "answer_batch"]

CALLS_LIMIT = 100
"""*Source*: Cloud Storage documentation, batch requests: no more than 100 calls."""

_BODY_LIMIT_BYTES = 10 << 20
"""*Source*: Cloud Storage documentation, batch requests: less than 10 MB."""

_METADATA_ROOT = b"/storage/v1/"


async def answer_batch(call: Call, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    """Answers each request of a batch, in order.

    Args:
        call: the batch.
        answer: answers one request of the JSON API.
    """
    boundary_of(call.headers.get("content-type", ""))
    parts = _parts(call.headers["content-type"], await call.request.body.read(_BODY_LIMIT_BYTES))
    if not 1 <= len(parts) <= CALLS_LIMIT:
        raise JsonError(400, f"The batch has {len(parts)} requests; 1 to {CALLS_LIMIT} are allowed.")
    boundary = b"batch_" + call.request.id.encode()
    body = bytearray()
    for index, (content_id, text) in enumerate(parts):
        try:
            inner = _inner(call.request, text, index)
            if not inner.may_write and inner.method not in ("GET", "HEAD"):
                raise JsonError(403, "The credentials of the batch only permit reading.")
            response = await answer(inner)
        except JsonError as error:
            response = error_response(error)
        body += b"--%s\r\nContent-Type: application/http\r\n" % boundary
        if content_id:
            body += b"Content-ID: %s\r\n" % _mirrored(content_id).encode("latin-1", errors="replace")
        body += b"\r\n%s\r\n" % _as_text(response)
    body += b"--%s--\r\n" % boundary
    content_type = b"multipart/mixed; boundary=" + boundary
    return Response(status=200, headers=[(b"content-type", content_type)], body=bytes(body))


def _parts(content_type: str, body: bytes) -> list[tuple[str, bytes]]:
    """Returns the Content-ID and the content of each part."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1", errors="replace")
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    if not message.is_multipart():
        raise JsonError(400, "The batch has no parts between boundaries.")
    found: list[tuple[str, bytes]] = []
    for part in message.iter_parts():
        payload = part.get_payload(decode=True)
        found.append((str(part.get("Content-ID", "")), payload if isinstance(payload, bytes) else b""))
    return found


def _inner(outer: Request, text: bytes, index: int) -> Request:
    """Returns the request that a part holds; raises JsonError (400)."""
    lines, _, body = text.lstrip(b"\r\n").replace(b"\r\n", b"\n").partition(b"\n\n")
    first, *headers_lines = lines.split(b"\n")
    words = first.split()
    if len(words) not in (2, 3):
        raise JsonError(400, "A part of the batch does not begin with METHOD PATH.")
    headers = {"host": outer.headers.get("host", "localhost")}
    for line in headers_lines:
        name, _, value = line.partition(b":")
        headers[name.strip().lower().decode("latin-1")] = value.strip().decode("latin-1")
    target = urlsplit(words[1])
    if not target.path.startswith(_METADATA_ROOT) or b"alt=media" in target.query.split(b"&"):
        raise JsonError(400, "A batch takes only requests for metadata: no uploads, downloads or batches.")
    try:
        query = parse_query(target.query)
    except ValueError:
        raise JsonError(400, "The query is not percent-encoded UTF-8.") from None
    length = headers.get("content-length", "")
    content = body[: int(length)] if length.isascii() and length.isdecimal() else body.strip()
    return Request(
        method=words[0].decode("latin-1"),
        raw_path=target.path,
        raw_query=target.query,
        query=query,
        headers=headers,
        body=_held(content),
        id=f"{outer.id}-{index}",
        scheme=outer.scheme,
        may_write=outer.may_write,
    )


def _held(content: bytes) -> Body:
    """Returns a body that is already there."""

    async def receive() -> tuple[bytes, bool]:
        return content, False

    return Body(receive, length_bytes=len(content))


def _mirrored(content_id: str) -> str:
    """Returns the Content-ID of an answer: `<response-X>` for `<X>`."""
    text = content_id.strip()
    return f"<response-{text[1:]}" if text.startswith("<") else f"response-{text}"


def _as_text(response: Response) -> bytes:
    """Returns an answer as it would go over the wire."""
    body = response.body if isinstance(response.body, bytes) and not response.bodiless else b""
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = ""
    lines = [f"HTTP/1.1 {response.status} {phrase}".encode()]
    lines += [b"%s: %s" % header for header in response.headers]
    lines.append(b"content-length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body
