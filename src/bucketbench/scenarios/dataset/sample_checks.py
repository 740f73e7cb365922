"""What a client says that a sample is, and whether what it delivered is that.

Checks run in the workers, outside the time of a fetch and within that of an epoch. Key and size of each sample are
compared in every pass. The content is compared where the sample is due (`bucketbench.scenarios.dataset.rotation`):
XXH3-128 takes about 0.07 s of a processor a GiB. *Source*: `docs/results/overhead.md`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import xxhash

__all__ = ["DecodedCheck", "MembersCheck", "ObjectsCheck", "Received", "SampleCheck", "read_sample_check"]

_PICTURE_SIDE: Final = 8
_POINTS: Final = 64
"""How many rows and columns of a decoded image are looked at."""

_TOLERANCE: Final = 8.0
"""Mean difference, of 255 levels, up to which a decoded image is taken for the one that was stored. *Source*: measured
over sizes and qualities of generated JPEG and PNG: below 2.1 for the image itself, above 15 for another one, for
swapped colours, and for rows in place of columns."""

Due = Callable[[int], bool]
"""Whether the sample at a position in the list of samples is to be compared whole."""


class Received(NamedTuple):
    """One sample that arrived as it should.

    Args:
        position: its place in the list of samples.
        size_bytes: what it counts.
        content: what a model gets of it.
        whole: whether its content was compared, and not its key and size alone.
    """

    position: int
    size_bytes: int
    content: Any
    whole: bool


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

    def received(self, sample: Any, due: Due, /) -> Received | str | None:
        """The sample as it arrived, or in words what is wrong with it; None of what is no sample."""
        ...


def read_sample_check(path: Path, *, samples: str, decoded: bool) -> SampleCheck:
    """The check of what a client delivers.

    Args:
        path: the list of samples, see `bucketbench.scenarios.dataset.expected_samples`. Reading it takes no image
            library, whose import every job would pay for.
        samples: ``objects`` or ``members``, as the client's configuration says.
        decoded: whether the client has decoded them.
    """
    with path.open(encoding="utf-8") as lines:
        entries = [json.loads(line) for line in lines]
    if decoded:
        return DecodedCheck(entries)
    return MembersCheck(entries) if samples == "members" else ObjectsCheck(entries)


class _Object(NamedTuple):
    position: int
    size_bytes: int
    digest: bytes | None  # XXH3-128; None where it is not known
    gunzipped: tuple[int, bytes] | None  # size and XXH3-128 of what the object may be as well


class _Sample(NamedTuple):
    position: int
    size_bytes: int
    members: dict[str, tuple[int, bytes]]  # size and XXH3-128 by extension, in the order of the archive
    picture: npt.NDArray[np.uint8] | None


_Expected = TypeVar("_Expected", _Object, _Sample)


class _Listed(Generic[_Expected]):
    """The list of samples, in which each check looks up what a client has delivered."""

    _words: ClassVar[str]
    """What the samples are called."""

    _absent: ClassVar = "the manifest does not have"
    """What is said of a key that is not in the list."""

    def __init__(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Check against what `bucketbench.scenarios.dataset.expected_samples` lists."""
        self._expected: dict[str, _Expected] = {
            entry["key"]: self._read(position, entry) for position, entry in enumerate(entries)
        }

    def __len__(self) -> int:
        return len(self._expected)

    @property
    def described(self) -> str:
        """As of ``SampleCheck``."""
        expected = self._expected.values()
        sizes, known = [one.size_bytes for one in expected], sum(map(self._is_known, expected))
        return (
            f"{len(sizes):,} {self._words} of {min(sizes):,} to {max(sizes):,} bytes, {sum(sizes):,} in all; the "
            f"content of {known:,} is known"
        )

    def _read(self, position: int, entry: Mapping[str, Any]) -> _Expected:
        raise NotImplementedError

    def _is_known(self, expected: _Expected) -> bool:
        """Whether the content can be compared, and not the size alone."""
        raise NotImplementedError

    def _looked_up(self, key: Any) -> _Expected | str:
        """What the sample with a key has to be, or in words that there is none."""
        expected = self._expected.get(key) if isinstance(key, str) else None
        return f"the client delivered the key {_shortened(key)}, which {self._absent}" if expected is None else expected


class ObjectsCheck(_Listed[_Object]):
    """A sample is a pair of an object's key and its whole content."""

    statement: ClassVar = "a sample is an object, and its bytes are those that it is stored in"
    _words: ClassVar = "objects"

    def received(self, sample: Any, due: Due, /) -> Received | str | None:
        """As of ``SampleCheck``: key known, size right, checksum right where it is known and the sample due.

        What is gunzipped is the object, too, where the list says what that is.
        """
        key, data = _parts(sample, 2, "a pair of key and content")
        expected = self._looked_up(key)
        if isinstance(expected, str):
            if isinstance(key, str) and key[-1:] in ("", "/") and not data:
                return None  # what consoles make for a folder, which some clients list
            return expected
        position, size_bytes, digest, gunzipped = expected
        whole = digest is not None and due(position)
        if not _fits(data, size_bytes, digest if whole else None) and (
            gunzipped is None or not _fits(data, gunzipped[0], gunzipped[1] if whole else None)
        ):
            return _wrong(_shortened(key), data, size_bytes)
        return Received(position, size_bytes, data, whole)

    def _read(self, position: int, entry: Mapping[str, Any]) -> _Object:
        digest, gunzipped = entry["xxh3_128"], entry.get("decoded_xxh3_128")
        return _Object(
            position,
            entry["size_bytes"],
            None if digest is None else bytes.fromhex(digest),
            None if gunzipped is None else (entry["decoded_size_bytes"], bytes.fromhex(gunzipped)),
        )

    def _is_known(self, expected: _Object) -> bool:
        return expected.digest is not None


class _ListedSamples(_Listed[_Sample]):
    """Samples of which the list has members, what an image shows, or both."""

    def _read(self, position: int, entry: Mapping[str, Any]) -> _Sample:
        members = {
            extension: (size_bytes, bytes.fromhex(digest))
            for extension, (size_bytes, digest) in entry.get("members", {}).items()
        }
        size_bytes = entry["size_bytes"] if "size_bytes" in entry else sum(size for size, _ in members.values())
        picture = entry.get("picture")
        shown = None if picture is None else np.frombuffer(bytes.fromhex(picture), np.uint8).reshape(8, 8, 3)
        return _Sample(position, size_bytes, members, shown)


class MembersCheck(_ListedSamples):
    """A sample is a pair of the key that members of a tar shard share and a mapping from extension to content."""

    statement: ClassVar = "a sample is the members of a tar shard that share a key, and its bytes are theirs"
    _words: ClassVar = "samples in tar shards"
    _absent: ClassVar = "is in no shard"

    def received(self, sample: Any, due: Due, /) -> Received | str | None:
        """As of ``SampleCheck``: key known, the same members, each with the right size and, where due, checksum."""
        key, fields = _parts(sample, 2, "a pair of key and members")
        expected = self._looked_up(key)
        if isinstance(expected, str):
            return expected
        if not isinstance(fields, Mapping):
            return f"{key!r} arrived as {type(fields).__name__}, expected a mapping from extension to content"
        given = {str(extension).lower(): data for extension, data in fields.items()}
        if given.keys() != expected.members.keys():
            return (
                f"{key!r} arrived with the members {', '.join(sorted(given)) or 'none'}, its shard has "
                f"{', '.join(sorted(expected.members))}"
            )
        whole = due(expected.position)
        for extension, (size_bytes, digest) in expected.members.items():
            data = given[extension]
            if not _fits(data, size_bytes, digest if whole else None):
                return _wrong(f"{key}.{extension}", data, size_bytes)
        first = next(iter(expected.members))
        return Received(expected.position, expected.size_bytes, given[first], whole)

    def _is_known(self, expected: _Sample) -> bool:
        return bool(expected.members)


class DecodedCheck(_ListedSamples):
    """A sample is a key, an image as a tensor, and its label.

    What was decoded cannot be compared by a checksum: decoders round differently. So the tensor must show what the
    image was made from, scaled as it likes but not cropped, and the label be the one that was stored.
    """

    statement: ClassVar = "a sample is an image that the client decoded, and its bytes are those it was stored in"
    _words: ClassVar = "encoded samples"

    def received(self, sample: Any, due: Due, /) -> Received | str | None:
        """As of ``SampleCheck``: key known, an image, the stored label, and where due the image that was stored."""
        key, image, label = _parts(sample, 3, "a key, a tensor and a label")
        expected = self._looked_up(key)
        if isinstance(expected, str):
            return expected
        if not isinstance(image, torch.Tensor) or image.dim() != 3 or image.shape[0] != 3 or 0 in image.shape:
            kind = f"of shape {tuple(image.shape)}" if isinstance(image, torch.Tensor) else type(image).__name__
            return f"{key!r} arrived as {kind}, expected a tensor of shape (3, height, width)"
        stored = expected.members.get("cls")
        if stored is not None and xxhash.xxh3_128_digest(str(label).encode()) != stored[1]:
            return f"{key!r} arrived with the label {_shortened(label)}, which is not the one that was stored"
        whole = False
        if expected.picture is not None and due(expected.position):
            whole = True
            difference = float(np.abs(_seen(image) - expected.picture).mean())
            if not difference <= _TOLERANCE:
                return (
                    f"{key!r} arrived as another image than was stored: it differs by {difference:.0f} of 255 levels "
                    f"on average, {_TOLERANCE:.0f} are allowed"
                )
        return Received(expected.position, expected.size_bytes, image.contiguous().numpy(), whole)

    def _is_known(self, expected: _Sample) -> bool:
        return expected.picture is not None


def _fits(data: Any, size_bytes: int, digest: bytes | None) -> bool:
    """Whether content has a size, and an XXH3-128 where one is given."""
    try:
        arrived_bytes = len(data) if type(data) is bytes else memoryview(data).nbytes
    except TypeError:
        return False
    return arrived_bytes == size_bytes and (digest is None or xxhash.xxh3_128_digest(data) == digest)


def _wrong(name: str, data: Any, size_bytes: int) -> str:
    """In words why content does not fit."""
    try:
        arrived_bytes = memoryview(data).nbytes
    except TypeError:
        return f"{name} arrived as {type(data).__name__}, expected bytes or a bytes-like object"
    if arrived_bytes != size_bytes:
        return f"{name} arrived with {arrived_bytes} bytes, the manifest has {size_bytes}"
    return f"{name} arrived with other content than the manifest's checksum tells"


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


def _parts(sample: Any, count: int, words: str) -> tuple[Any, ...]:
    if isinstance(sample, tuple | list) and len(sample) == count:
        return tuple(sample)
    return f"(a {type(sample).__name__} instead of {words})", *[b""] * (count - 1)


def _shortened(key: Any) -> str:
    """What a client delivered in place of a key, as a message shows it."""
    text = repr(key)
    return text if len(text) <= 120 else f"{text[:117]}..."
