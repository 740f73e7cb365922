"""Reads into many pieces of memory: which bytes to ask for together, and which of them go where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torchbucket.errors import ConfigError, TruncatedError
from torchbucket.store.arguments import byte_count, writable_view
from torchbucket.store.protocol import ObjectInfo, Target

__all__ = ["Part", "check_within", "checked_targets", "plan_parts"]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A range ``[start, stop)`` that is asked for by one request.

    Args:
        start: first byte, which a piece begins with.
        stop: end, which a piece ends with.
        pieces: the range's offset and memory of each piece, in the order of the offsets.
        targets: the position of the target that each piece is of.
    """

    start: int
    stop: int
    pieces: list[tuple[int, memoryview]]
    targets: list[int]

    @property
    def is_gapless(self) -> bool:
        """Whether each byte of the range goes to exactly one place."""
        end = 0
        for offset, memory in self.pieces:
            if offset != end:
                return False
            end += len(memory)
        return True


def checked_targets(targets: Sequence[Target]) -> list[Target]:
    """Return the targets with flat memory; raise ``ConfigError`` for what no object can be read into."""
    checked = []
    for position, (start, memory) in enumerate(targets):
        try:
            checked.append((byte_count("start", start), writable_view(memory)))
        except (ConfigError, TypeError) as error:
            raise ConfigError(f"target {position}: {error}") from error
    return checked


def check_within(uri: str, info: ObjectInfo, targets: Sequence[Target]) -> None:
    """Raise ``TruncatedError`` where the object ends before a target does."""
    for position, (start, memory) in enumerate(targets):
        if memory and start + len(memory) > info.size_bytes:
            raise TruncatedError(
                f"read {uri}: target {position} asks for the bytes [{start}, {start + len(memory)}), and the object "
                f"has {info.size_bytes}: it was written anew or cut, or the places are those of another object",
                operation="read",
                uri=uri,
            )


def plan_parts(targets: Sequence[Target], *, gap_bytes: int, part_bytes: int) -> list[Part]:
    """Divide what the targets ask for into parts, in the order of their bytes.

    Targets that lie no further than ``gap_bytes`` apart are asked for together, up to ``part_bytes`` at once; what is
    longer is cut. No part begins or ends with bytes that nobody asked for. Targets may overlap.

    Args:
        targets: start and flat memory of each, in any order; those of no bytes are left out.
        gap_bytes: unwanted bytes between two targets that are read rather than asked around.
        part_bytes: bound on a part, at least 1.
    """
    parts: list[Part] = []
    for first, span in _spans(targets, gap_bytes):
        pieces: dict[int, list[tuple[int, memoryview, int]]] = {}
        for position in span:
            start, memory = targets[position]
            stop, low = start + len(memory), start
            while low < stop:
                number = (low - first) // part_bytes
                high = min(stop, first + (number + 1) * part_bytes)
                pieces.setdefault(number, []).append((low, memory[low - start : high - start], position))
                low = high
        parts += [_part(pieces[number]) for number in sorted(pieces)]
    return parts


def _spans(targets: Sequence[Target], gap_bytes: int) -> Iterator[tuple[int, list[int]]]:
    """Yield where each run of neighbours begins, and the positions of its targets by their starts."""
    first, stop = 0, 0
    span: list[int] = []
    for position in sorted(range(len(targets)), key=lambda position: targets[position][0]):
        start, memory = targets[position]
        if not memory:
            continue
        if span and start - stop > gap_bytes:
            yield first, span
            span = []
        if not span:
            first, stop = start, start
        span.append(position)
        stop = max(stop, start + len(memory))
    if span:
        yield first, span


def _part(pieces: list[tuple[int, memoryview, int]]) -> Part:
    start = pieces[0][0]
    return Part(
        start,
        max(low + len(memory) for low, memory, _ in pieces),
        [(low - start, memory) for low, memory, _ in pieces],
        [position for _, _, position in pieces],
    )
