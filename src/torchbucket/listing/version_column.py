"""The versions of listed objects, each form of them in as few bytes as it needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from torchbucket.public import public_in

__all__ = ["VersionColumn"]

_Array: TypeAlias = npt.NDArray[np.generic]

# The decimal numbers that int64 holds and that come back as they were. Source: GCS's generations are such numbers.
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,17}")
# Source: Amazon S3 API reference, "Object": an object put in one request has the quoted MD5 of its bytes for an ETag.
_QUOTED_MD5: Final = re.compile(r'"[0-9a-f]{32}"')


@public_in("torchbucket.listing")
class VersionColumn:
    """One version for each object of a listing, or None where the server gave none. Immutable.

    A number (GCS's generation) takes 8 bytes, a quoted MD5 (S3's ETag of an object written in one request) 16, and
    where a listing has any other, each takes its text and 4 to 8 bytes more.

    Args:
        values: int64, uint8 of the shape ``(count, 16)``, or uint8 of the texts one after another.
        offsets: where each text begins, and their length at the end; None for the other two forms. A text of no
            characters stands for None.
    """

    __slots__ = ("_offsets", "_values")

    def __init__(self, values: _Array, offsets: npt.NDArray[np.int64] | None = None) -> None:
        self._values = values
        self._offsets = offsets

    @classmethod
    def of(cls, versions: Sequence[str | None]) -> VersionColumn | None:
        """The column of versions; None where no object has one."""
        texts = [version or "" for version in versions]
        if all(map(_NUMBER.fullmatch, texts)):
            return cls(np.array([int(text) for text in texts], np.int64)) if texts else None
        if all(map(_QUOTED_MD5.fullmatch, texts)):
            digests = bytes.fromhex("".join(texts).replace('"', ""))
            return cls(np.frombuffer(digests, np.uint8).reshape(-1, 16))
        if not any(texts):
            return None
        encoded = [text.encode() for text in texts]
        offsets = np.array([0, *accumulate(map(len, encoded))], np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    @classmethod
    def none(cls, count: int) -> VersionColumn:
        """A column for so many objects without versions."""
        return cls(np.zeros(0, np.uint8), np.zeros(count + 1, np.int64))

    @classmethod
    def joined(cls, columns: Sequence[VersionColumn]) -> VersionColumn:
        """Several columns as one; all of one form where they can be."""
        forms = {(column._values.dtype, column._values.ndim) for column in columns}
        if len(forms) == 1 and columns[0]._offsets is None:
            return cls(np.concatenate([column._values for column in columns]))
        texts = [column._as_texts() for column in columns]
        lengths = [np.diff(offsets) for _, offsets in texts]
        offsets = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
        return cls(np.concatenate([values for values, _ in texts]), offsets)

    def _as_texts(self) -> tuple[_Array, npt.NDArray[np.int64]]:
        if self._offsets is not None:
            return self._values, self._offsets
        encoded = [(self[position] or "").encode() for position in range(len(self))]
        offsets = np.array([0, *accumulate(map(len, encoded))], np.int64)
        return np.frombuffer(b"".join(encoded), np.uint8), offsets

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the versions take."""
        return self._values.nbytes + (0 if self._offsets is None else self._offsets.nbytes)

    def __len__(self) -> int:
        return len(self._values) if self._offsets is None else len(self._offsets) - 1

    def __getitem__(self, position: int) -> str | None:
        """The version of one object as the server wrote it; None where it wrote none."""
        if self._offsets is not None:
            start, stop = self._offsets[position], self._offsets[position + 1]
            return self._values[start:stop].tobytes().decode() or None
        if self._values.ndim == 1:
            return str(self._values[position])
        return f'"{self._values[position].tobytes().hex()}"'

    def __repr__(self) -> str:
        return f"VersionColumn({len(self)} versions, {self.nbytes} bytes of memory)"
