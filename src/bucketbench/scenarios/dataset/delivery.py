"""Whether every sample of the data set arrived, once, with the bytes that were stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from bucketbench.ranks import Ranks
from bucketbench.scenarios.verification import NOTES_KEPT, VerificationCounts

__all__ = ["ContentCheck", "DeliveryLedger", "shortened", "size_bytes_of"]


def size_bytes_of(data: Any) -> int:
    """The number of bytes in a bytes-like object, whatever its item size.

    Raises:
        TypeError: it is not bytes-like.
    """
    return memoryview(data).nbytes


class ContentCheck:
    """Compares one sample with the manifest: key known, size right, XXH3-128 right where it is known.

    Runs in the workers, outside the time of a fetch. It costs about 0.03 s of CPU a GiB. *Source*: the XXH3
    benchmarks of its author (xxhash.com, 31 GB/s from memory); it is part of the epoch's time and of its CPU seconds,
    for each client alike.

    Holds plain values only: it can be pickled and forked.
    """

    def __init__(
        self, entries: Iterable[tuple[str, int, str | None]], decoded: Mapping[str, tuple[int, str]] | None = None
    ) -> None:
        """Check against ``(key, size in bytes, XXH3-128 in hexadecimal or None)`` of every sample.

        ``decoded`` has the size and the XXH3-128 of what samples are once gunzipped, of those that may come so.
        """
        self._decoded = {key: (size, bytes.fromhex(digest)) for key, (size, digest) in (decoded or {}).items()}
        self._expected = {
            key: (position, size_bytes, None if digest is None else bytes.fromhex(digest))
            for position, (key, size_bytes, digest) in enumerate(entries)
        }

    @classmethod
    def from_file(cls, path: Path) -> ContentCheck:
        """Check against a file of JSON lines with ``key``, ``size_bytes`` and ``xxh3_128``, one a sample.

        That is a manifest without its header: reading it takes no image library, whose import every job would pay for.
        """
        with path.open(encoding="utf-8") as lines:
            entries = [json.loads(line) for line in lines]
        decoded = {
            entry["key"]: (entry["decoded_size_bytes"], entry["decoded_xxh3_128"])
            for entry in entries
            if "decoded_xxh3_128" in entry
        }
        return cls(((entry["key"], entry["size_bytes"], entry["xxh3_128"]) for entry in entries), decoded)

    def __len__(self) -> int:
        return len(self._expected)

    @property
    def described(self) -> str:
        """In words how many samples there are, of what size, and of how many the content is known."""
        sizes = [size_bytes for _, size_bytes, _ in self._expected.values()]
        known = sum(digest is not None for _, _, digest in self._expected.values())
        return (
            f"{len(sizes):,} objects of {min(sizes):,} to {max(sizes):,} bytes, {sum(sizes):,} in all; the content of "
            f"{known:,} is compared"
        )

    def size_bytes(self, key: str) -> int:
        """How long the sample's content is as it is stored."""
        return self._expected[key][1]

    def position(self, key: Any, data: Any) -> int | str | None:
        """The sample's position in the manifest, or in words what is wrong with it; None of what is no sample."""
        expected = self._expected.get(key) if isinstance(key, str) else None
        if expected is None:
            if isinstance(key, str) and key[-1:] in ("", "/") and not data:
                return None  # what consoles make for a folder, which some clients list
            return f"the client delivered the key {shortened(key)}, which the manifest does not have"
        position, size_bytes, digest = expected
        try:
            arrived_bytes = size_bytes_of(data)
        except TypeError:
            return f"{shortened(key)} arrived as {type(data).__name__}, expected bytes or a bytes-like object"
        if key in self._decoded and self._decoded[key] == (arrived_bytes, xxhash.xxh3_128_digest(data)):
            return position
        if arrived_bytes != size_bytes:
            return f"{shortened(key)} arrived with {arrived_bytes} bytes, the manifest has {size_bytes}"
        if digest is not None and xxhash.xxh3_128_digest(data) != digest:
            return f"{shortened(key)} arrived with other content than the manifest's checksum tells"
        return position


class DeliveryLedger:
    """Counts, in the main process, how often all ranks together delivered each sample in each measured epoch."""

    def __init__(self, samples: int, *, at_most: int | None = None, ranks: Ranks | None = None) -> None:
        """Expect every one of so many samples; with ``at_most`` any so many of them."""
        self._samples = samples
        self._unread = 0 if at_most is None else max(samples - at_most, 0)
        self._ranks = ranks or Ranks()
        self._delivered = np.zeros(samples, dtype=np.int64)
        self._known_wrong_this_epoch = np.zeros(1, dtype=np.int64)
        self._checked = self._mismatched = self._missing = self._duplicated = self._errors = 0
        self._notes: list[str] = []

    def __len__(self) -> int:
        return self._samples - self._unread

    @property
    def found_wrong(self) -> bool:
        """Whether anything was wrong in a closed epoch, as far as this rank knows."""
        return bool(self._mismatched or self._missing or self._duplicated or self._errors)

    def add(
        self,
        positions: Sequence[int],
        *,
        mismatched: int,
        errors: int,
        undecodable: int,
        notes: Sequence[str],
        no_samples: int = 0,
    ) -> None:
        """Take in one batch.

        Args:
            positions: manifest positions of the samples that arrived whole, those that could not be decoded included.
            mismatched: samples with an unknown key, a wrong size or wrong content.
            errors: samples that the client failed to deliver.
            undecodable: samples that arrived whole and that the model could not decode.
            notes: what was wrong, in words.
            no_samples: objects that are no samples, such as those that consoles make for folders. They are among the
                so many that are read at most.
        """
        np.add.at(self._delivered, np.asarray(positions, dtype=np.int64), 1)
        self._checked += len(positions) + mismatched
        self._mismatched += mismatched
        self._errors += errors + undecodable
        self._known_wrong_this_epoch += mismatched + errors + (no_samples if self._unread else 0)
        room = NOTES_KEPT - len(self._notes)
        self._notes.extend(notes[: max(room, 0)])

    def close_epoch(self) -> None:
        """Count what is missing and what came twice in the epoch that has just ended, and begin another."""
        delivered = self._ranks.sum(self._delivered)
        absent = int(np.count_nonzero(delivered == 0)) - self._unread
        # A mismatched or failed sample did not go missing: it is counted where it is known to be wrong.
        self._missing += max(absent - int(self._ranks.sum(self._known_wrong_this_epoch)[0]), 0)
        self._duplicated += int(np.sum(np.maximum(delivered - 1, 0)))
        self._known_wrong_this_epoch[:] = 0
        self._delivered[:] = 0

    def counts(self) -> VerificationCounts:
        """The counts of all closed epochs. The notes are this rank's own."""
        own = np.array([self._checked, self._mismatched, self._errors], dtype=np.int64)
        checked, mismatched, errors = map(int, self._ranks.sum(own))
        return VerificationCounts(
            checked=checked,
            mismatched=mismatched,
            missing=self._missing,
            duplicated=self._duplicated,
            errors=errors,
            notes=tuple(self._notes),
        )


def shortened(key: Any) -> str:
    """What a client delivered in place of a key, as a message shows it."""
    text = repr(key)
    return text if len(text) <= 120 else f"{text[:117]}..."
