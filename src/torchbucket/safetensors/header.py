"""The header of a safetensors file: a length, JSON that says where each tensor lies, then the tensors' bytes."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeGuard

from torchbucket.errors import CheckpointError, ConfigError
from torchbucket.safetensors.dtypes import DTYPES

__all__ = [
    "HEADER_BYTES_LIMIT",
    "LENGTH_BYTES",
    "Header",
    "TensorPlace",
    "header_bytes",
    "is_unicode",
    "json_object",
    "json_stop",
    "parse_header",
    "quoted",
]

LENGTH_BYTES: Final = 8
"""How many bytes say how long the JSON is, as a little-endian integer."""

HEADER_BYTES_LIMIT: Final = 100_000_000
"""The longest JSON that is read. *Source:* safetensors, ``MAX_HEADER_SIZE``."""

_SIZE_LIMIT: Final = 1 << 63  # What neither torch nor a file's position can count.
_METADATA: Final = "__metadata__"


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """One tensor of a file.

    Args:
        name: its name.
        dtype: the kind of its elements, a key of ``DTYPES``.
        shape: its shape in elements.
        start: where in the object its bytes begin.
        stop: where they end.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def size_bytes(self) -> int:
        """How many bytes its elements are."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself.

    Args:
        tensors: each tensor by its name, in the order of their bytes, which follow one another without a gap.
        metadata: texts by name; None where the file has none.
        stop: where the header ends and the tensors' bytes begin.
    """

    tensors: Mapping[str, TensorPlace]
    metadata: Mapping[str, str] | None
    stop: int


def json_stop(uri: str, start: bytes | bytearray | memoryview, size_bytes: int) -> int:
    """Where the JSON of a file ends.

    Args:
        uri: the file's address, for messages.
        start: its first bytes.
        size_bytes: the object's size.

    Raises:
        CheckpointError: it is no safetensors file, or cut.
    """
    if len(start) < LENGTH_BYTES:
        _refuse(uri, f"it has {size_bytes} bytes, and a safetensors file at least {LENGTH_BYTES}")
    (length,) = struct.unpack_from("<Q", start)
    if length > HEADER_BYTES_LIMIT:
        _refuse(
            uri,
            f"its first {LENGTH_BYTES} bytes say that the header has {length} bytes, and {HEADER_BYTES_LIMIT} is the "
            "most: it is no safetensors file",
        )
    stop = LENGTH_BYTES + int(length)
    if stop > size_bytes:
        _refuse(uri, f"its header ends at {stop} bytes, and the object has {size_bytes}: it was cut")
    return stop


def parse_header(uri: str, text: bytes | bytearray | memoryview, size_bytes: int) -> Header:
    """Read a header, which may be anybody's, and check that it describes the whole object and nothing else.

    Args:
        uri: the file's address, for messages.
        text: the JSON.
        size_bytes: the object's size.

    Raises:
        CheckpointError: a tensor of an unknown kind, offsets that leave a hole, overlap, go beyond the object's end or
            do not fit the shape, a name that is there twice, anything that is no such header.
    """
    found = json_object(uri, text, "its header")
    stop = LENGTH_BYTES + len(text)
    metadata = found.pop(_METADATA, None)
    if metadata is not None and not (
        isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    ):
        _refuse(uri, f"{_METADATA} of its header must be texts by name")
    places = sorted((_place(uri, name, value, stop) for name, value in found.items()), key=lambda p: (p.start, p.stop))
    end = stop
    for place in places:
        if place.start != end:
            what = "overlap those before them" if place.start < end else "leave a hole before them"
            _refuse(
                uri, f"the bytes of {quoted(place.name)}, [{place.start}, {place.stop}), {what}, which end at {end}"
            )
        end = place.stop
    if end != size_bytes:
        _refuse(
            uri,
            f"its header says that it ends at {end} bytes, and the object has {size_bytes}: it was cut, written in "
            "part, or belongs to another header",
        )
    return Header(tensors={place.name: place for place in places}, metadata=metadata, stop=stop)


def header_bytes(tensors: Iterable[tuple[str, str, tuple[int, ...], int]], metadata: Mapping[str, str] | None) -> bytes:
    """The first bytes of a file, up to where the tensors' begin.

    Args:
        tensors: name, kind, shape in elements and size in bytes of each, in the order of their bytes.
        metadata: texts by name.

    Raises:
        ConfigError: no reader takes so long a header.
    """
    entries: dict[str, object] = {} if metadata is None else {_METADATA: dict(metadata)}
    end = 0
    for name, dtype, shape, size_bytes in tensors:
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": (end, end + size_bytes)}
        end += size_bytes
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)  # The tensors' bytes are aligned so.
    if len(text) > HEADER_BYTES_LIMIT:
        raise ConfigError(
            f"the header of {len(entries):,} entries would have {len(text)} bytes, and {HEADER_BYTES_LIMIT} is the "
            "most that any reader takes; save several files"
        )
    return struct.pack("<Q", len(text)) + text


def json_object(uri: str, text: bytes | bytearray | memoryview, what: str) -> dict[str, Any]:
    """A JSON object of anybody's, as strictly as the format has it: UTF-8, no name twice, no NaN.

    Args:
        uri: the address of what it is from, for messages.
        text: the JSON.
        what: what it is, for messages.

    Raises:
        CheckpointError: it is none.
    """
    try:
        decoded = str(text, "utf-8")
        found = json.loads(decoded, object_pairs_hook=_unique, parse_constant=_no_number)
        if "\\u" in decoded:
            json.dumps(found, ensure_ascii=False).encode()  # An escape may be half a character.
    except (ValueError, RecursionError, MemoryError) as error:  # also where it is nested too deeply
        reason = str(error) or type(error).__name__
        raise CheckpointError(f"{uri}: {what} is no JSON of this format: {reason[:200]}", uri=uri) from None
    if not isinstance(found, dict):
        _refuse(uri, f"{what} must be a JSON object; it is a {type(found).__name__}")
    return found


def quoted(text: object) -> str:
    """A name out of a file for a message: escaped, and not longer than one can read."""
    shown = repr(text)
    return shown if len(shown) <= 200 else f"{shown[:150]}… ({len(shown)} characters)"


def is_unicode(text: object) -> bool:
    """Whether it is a text that can be written down: not one with half a character."""
    try:
        str.encode(text)  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):
        return False
    return True


def _place(uri: str, name: str, value: object, data_start: int) -> TensorPlace:
    if not isinstance(value, dict):
        _refuse(uri, f"{quoted(name)} of its header must be an object with dtype, shape and data_offsets")
    fields: dict[str, Any] = value
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    element = DTYPES.get(dtype) if isinstance(dtype, str) else None
    if element is None:
        _refuse(
            uri,
            f"{quoted(name)} has the dtype {quoted(dtype)}; those known are {', '.join(DTYPES)}: the file is newer, or "
            "damaged",
        )
    if not _are_counts(shape):
        _refuse(uri, f"{quoted(name)} has the shape {quoted(shape)}; whole numbers of at least 0 are needed")
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        _refuse(uri, f"{quoted(name)} has the data_offsets {quoted(offsets)}; [start, stop] is needed")
    bits, span_bits = element.bits, element.bits
    for length in shape:
        bits *= length
        span_bits *= max(1, length)
        if span_bits >= _SIZE_LIMIT:
            _refuse(uri, f"{quoted(name)} has the shape {quoted(shape)}, which is more than can be counted")
    start, stop = offsets
    if bits != 8 * (stop - start):
        _refuse(
            uri,
            f"{quoted(name)} of the dtype {dtype} and the shape {quoted(shape)} has {bits / 8:g} bytes, and its "
            f"data_offsets {offsets} {stop - start}",
        )
    return TensorPlace(name, element.name, tuple(shape), data_start + start, data_start + stop)


def _are_counts(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < _SIZE_LIMIT for item in value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {quoted(name)} is there twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _refuse(uri: str, reason: str) -> NoReturn:
    raise CheckpointError(f"{uri}: {reason}", uri=uri)
