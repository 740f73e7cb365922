"""What a fault does to a request on the server's side of the socket; those of listings are the dialects'."""

import asyncio

from buckettestbed.faults.plan import Fault
from buckettestbed.serving.connection import Connection
from buckettestbed.serving.dialect import Dialect
from buckettestbed.serving.messages import CutError, DisconnectedError, Request, Response
from buckettestbed.serving.receiving import AsgiReceive, client_gone

__all__ = [
    "answer_without_effect",
    "before_first_byte",
    "corrupted",
    "cut",
    "inject_inside_body",
    "place_inside_body",
]


_INTERNAL = "An internal error that a rule of faults asked for; try again."
"""Instead of the dialects' own text for this status, which speaks of a failure of the testbed."""


def answer_without_effect(dialect: Dialect, request: Request) -> Response | None:
    """Returns the answer to a request that its fault keeps from the dialect, or None where the dialect answers it.

    Where the fault is a reset nobody sees that answer, because `before_first_byte` comes first.
    """
    fault = request.fault
    if fault is None or fault.has_place or fault.kind not in ("error", "error_after_200", "reset"):
        return None
    rule, status = fault.rule, fault.rule.status or 500
    message = rule.message or (_INTERNAL if status == 500 else None)
    response = dialect.error(request, status=status, code=rule.code, message=message)
    if fault.kind == "error_after_200":
        response.status = 200
    if rule.retry_after_s is not None:
        response.headers.append((b"retry-after", b"%d" % rule.retry_after_s))
    return response


async def before_first_byte(fault: Fault, receive: AsgiReceive) -> None:
    """Waits as the fault has it; raises CutError where no answer is to come, DisconnectedError when the client leaves
    meanwhile."""
    if fault.kind in ("lost_response", "reset_upload") or (fault.kind == "reset" and not fault.has_place):
        raise CutError(clean=False)
    if fault.kind == "delay" or (fault.kind == "stall" and not fault.has_place):
        await _pause(receive, fault.rule.seconds)


def place_inside_body(fault: Fault | None, size_bytes: int) -> int | None:
    """Returns after how many bytes of the answer's body `inject_inside_body` is due, or None."""
    if fault is not None and (fault.kind == "truncate" or (fault.kind in ("reset", "stall") and fault.has_place)):
        return fault.place(size_bytes)
    return None


async def inject_inside_body(fault: Fault, receive: AsgiReceive) -> None:
    """Stalls, or raises CutError; raises DisconnectedError when the client leaves meanwhile."""
    if fault.kind == "stall":
        await _pause(receive, fault.rule.seconds)
    else:
        raise CutError(clean=fault.kind == "truncate")


def corrupted(fault: Fault, piece: bytes | memoryview, at: int, size_bytes: int) -> bytes | memoryview:
    """Returns the piece that lies at `at` of a body of this size, with the one byte changed if it holds it."""
    index = fault.place(size_bytes) - at
    if not 0 <= index < len(piece):
        return piece
    changed = bytearray(piece)
    changed[index] ^= fault.mask
    return bytes(changed)


async def _pause(receive: AsgiReceive, seconds: float | None) -> None:
    """Returns after so many seconds; raises DisconnectedError when the client goes away before, which None waits
    for."""
    try:
        await asyncio.wait_for(client_gone(receive), seconds)
    except TimeoutError:
        return
    raise DisconnectedError


async def cut(connection: Connection, receive: AsgiReceive, *, clean: bool) -> None:
    """Ends the connection, cleanly or by a reset, and returns when it has ended."""
    if clean:
        await connection.close()
    else:
        await connection.reset()
    await client_gone(receive)
