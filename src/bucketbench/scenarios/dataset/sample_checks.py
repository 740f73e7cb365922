"""What a client says that a sample is, and whether what it delivered is that, whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
import xxhash

from bucketbench.scenarios.dataset.delivery import ContentCheck, shortened, size_bytes_of

__all__ = ["DecodedCheck", "MembersCheck", "ObjectsCheck", "Received", "SampleCheck", "read_sample_check"]

_PICTURE_SIDE: Final = 8
_POINTS: Final = 64
"""How many rows and columns of a decoded image are looked at."""

_TOLERANCE: Final = 8.0
"""Mean difference, of 255 levels, up to which a decoded image is taken for the one that was stored. *Source*: measured
over sizes and qualities of generated JPEG and PNG: below 2.1 for the image itself, above 15 for another one, for
swapped colours, and for rows in place of columns."""


class Received(NamedTuple):
    """One sample that arrived whole: its place in the list of samples, what it counts, and what a model gets of it."""

    position: int
    size_bytes: int
    content: Any


class SampleCheck(Protocol):
    """Compares what a client delivers with the list of samples. Holds plain values: it can be pickled and forked."""

    statement: ClassVar[str]
    """In words what a sample is, and which of its bytes count."""

    @property
    def described(self) -> str:
        """In words how many samples there are, and of what size."""
        ...

    def __len__(self) -> int:
        """How many samples there are."""
        ...

    def received(self, sample: Any) -> Received | str | None:
        """The sample as it arrived, or in words what is wrong with it; None of what is no sample."""
        ...


def read_sample_check(path: Path, *, samples: str, decoded: bool) -> SampleCheck:
    """The check of what a client delivers.

    Args:
        path: the list of samples, see `bucketbench.scenarios.dataset.expected_samples`.
        samples: ``objects`` or ``members``, as the client's configuration says.
        decoded: whether the client has decoded them.
    """
    if not decoded and samples == "objects":
        return ObjectsCheck(ContentCheck.from_file(path))
    with path.open(encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines]
    return DecodedCheck(entries) if decoded else MembersCheck(entries)


class ObjectsCheck:
    """A sample is a pair of an object's key and its whole content."""

    statement: ClassVar = "a sample is an object, and its bytes are those that it is stored in"

    def __init__(self, content: ContentCheck) -> None:
        self._content = content

    @property
    def described(self) -> str:
        """As of ``SampleCheck``."""
        return self._content.described

    def __len__(self) -> int:
        return len(self._content)

    def received(self, sample: Any) -> Received | str | None:
        """As of ``SampleCheck``: key known, size right, checksum right where it is known."""
        key, data = _parts(sample, 2, "a pair of key and content")
        position = self._content.position(key, data)
        return Received(position, self._content.size_bytes(key), data) if isinstance(position, int) else position


class _Expected(NamedTuple):
    position: int
    size_bytes: int
    members: dict[str, tuple[int, bytes]]  # size and XXH3-128 by extension, in the order of the archive
    picture: npt.NDArray[np.uint8] | None


def _expected(entries: Iterable[Mapping[str, Any]]) -> dict[str, _Expected]:
    found: dict[str, _Expected] = {}
    for position, entry in enumerate(entries):
        members = {
            extension: (size_bytes, bytes.fromhex(digest))
            for extension, (size_bytes, digest) in entry.get("members", {}).items()
        }
        size_bytes = entry["size_bytes"] if "size_bytes" in entry else sum(size for size, _ in members.values())
        picture = entry.get("picture")
        shown = None if picture is None else np.frombuffer(bytes.fromhex(picture), np.uint8).reshape(8, 8, 3)
        found[entry["key"]] = _Expected(position, size_bytes, members, shown)
    return found


class MembersCheck:
    """A sample is a pair of the key that members of a tar shard share and a mapping from extension to content."""

    statement: ClassVar = "a sample is the members of a tar shard that share a key, and its bytes are theirs"

    def __init__(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Check against what ``expected_samples`` lists."""
        self._expected = _expected(entries)

    def __len__(self) -> int:
        return len(self._expected)

    @property
    def described(self) -> str:
        """As of ``SampleCheck``."""
        return _described(self._expected.values(), "samples in tar shards")

    def received(self, sample: Any) -> Received | str | None:
        """As of ``SampleCheck``: key known, the same members, each with the right size and checksum."""
        key, fields = _parts(sample, 2, "a pair of key and members")
        expected = self._expected.get(key) if isinstance(key, str) else None
        if expected is None:
            return f"the client delivered the key {shortened(key)}, which is in no shard"
        if not isinstance(fields, Mapping):
            return f"{key!r} arrived as {type(fields).__name__}, expected a mapping from extension to content"
        given = {str(extension).lower(): data for extension, data in fields.items()}
        if set(given) != set(expected.members):
            return (
                f"{key!r} arrived with the members {', '.join(sorted(given)) or 'none'}, its shard has "
                f"{', '.join(sorted(expected.members))}"
            )
        for extension, (size_bytes, digest) in expected.members.items():
            data = given[extension]
            try:
                arrived_bytes = size_bytes_of(data)
            except TypeError:
                return f"{key}.{extension} arrived as {type(data).__name__}, expected bytes or a bytes-like object"
            if arrived_bytes != size_bytes:
                return f"{key}.{extension} arrived with {arrived_bytes} bytes, the manifest has {size_bytes}"
            if xxhash.xxh3_128_digest(data) != digest:
                return f"{key}.{extension} arrived with other content than the manifest's checksum tells"
        first = next(iter(expected.members))
        return Received(expected.position, expected.size_bytes, given[first])


class DecodedCheck:
    """A sample is a key, an image as a tensor, and its label.

    What was decoded cannot be compared by a checksum: decoders round differently. So the tensor must show what the
    image was made from, scaled as it likes but not cropped, and the label be the one that was stored.
    """

    statement: ClassVar = "a sample is an image that the client decoded, and its bytes are those it was stored in"

    def __init__(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Check against what ``expected_samples`` lists."""
        self._expected = _expected(entries)

    def __len__(self) -> int:
        return len(self._expected)

    @property
    def described(self) -> str:
        """As of ``SampleCheck``."""
        return _described(self._expected.values(), "encoded samples")

    def received(self, sample: Any) -> Received | str | None:
        """As of ``SampleCheck``: key known, the stored label, and the image that was stored."""
        key, image, label = _parts(sample, 3, "a key, a tensor and a label")
        expected = self._expected.get(key) if isinstance(key, str) else None
        if expected is None:
            return f"the client delivered the key {shortened(key)}, which the manifest does not have"
        if not isinstance(image, torch.Tensor) or image.dim() != 3 or image.shape[0] != 3 or 0 in image.shape:
            kind = f"of shape {tuple(image.shape)}" if isinstance(image, torch.Tensor) else type(image).__name__
            return f"{key!r} arrived as {kind}, expected a tensor of shape (3, height, width)"
        stored = expected.members.get("cls")
        if stored is not None and xxhash.xxh3_128_digest(str(label).encode()) != stored[1]:
            return f"{key!r} arrived with the label {shortened(label)}, which is not the one that was stored"
        if expected.picture is not None:
            difference = float(np.abs(_seen(image) - expected.picture).mean())
            if not difference <= _TOLERANCE:
                return (
                    f"{key!r} arrived as another image than was stored: it differs by {difference:.0f} of 255 levels "
                    f"on average, {_TOLERANCE:.0f} are allowed"
                )
        return Received(expected.position, expected.size_bytes, image.contiguous().numpy())


def _seen(image: torch.Tensor) -> npt.NDArray[np.float64]:
    """The means of an image's 8 x 8 equal parts, as far as a grid of points tells them; shape (8, 8, 3), 0 to 255."""
    _, height, width = image.shape
    rows, columns = (((np.arange(_POINTS) + 0.5) * length / _POINTS).astype(int) for length in (height, width))
    points = image[:, rows[:, None], columns[None, :]].double().numpy()
    if image.is_floating_point():
        points = points * 255  # by convention from 0 to 1
    side = _PICTURE_SIDE
    means: npt.NDArray[np.float64] = points.reshape(3, side, _POINTS // side, side, _POINTS // side).mean(axis=(2, 4))
    return means.transpose(1, 2, 0)


def _described(expected: Iterable[_Expected], words: str) -> str:
    sizes = [sample.size_bytes for sample in expected]
    return f"{len(sizes):,} {words} of {min(sizes):,} to {max(sizes):,} bytes, {sum(sizes):,} in all"


def _parts(sample: Any, count: int, words: str) -> tuple[Any, ...]:
    if isinstance(sample, tuple | list) and len(sample) == count:
        return tuple(sample)
    return f"(a {type(sample).__name__} instead of {words})", *[b""] * (count - 1)
