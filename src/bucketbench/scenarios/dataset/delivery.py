"""Whether every sample of the data set arrived, once, and how much of what arrived was compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bucketbench.ranks import Ranks
from bucketbench.scenarios.verification import NOTES_KEPT, VerificationCounts

__all__ = ["DeliveryLedger"]


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
        self._checked_by_size = self._checked_in_warmup = 0
        self._notes: list[str] = []

    def __len__(self) -> int:
        return self._samples - self._unread

    @property
    def found_wrong(self) -> bool:
        """Whether anything was wrong in the warm-up or a closed epoch, as far as this rank knows."""
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
        by_size: int = 0,
    ) -> None:
        """Take in one batch of a measured epoch.

        Args:
            positions: manifest positions of the samples that arrived whole, those that could not be decoded included.
            mismatched: samples with an unknown key, a wrong size or wrong content.
            errors: samples that the client failed to deliver.
            undecodable: samples that arrived whole and that the model could not decode.
            notes: what was wrong, in words.
            no_samples: objects that are no samples, such as those that consoles make for folders. They are among the
                so many that are read at most.
            by_size: of the samples that arrived whole those whose content was not compared, their size alone.
        """
        np.add.at(self._delivered, np.asarray(positions, dtype=np.int64), 1)
        self._checked += len(positions) + mismatched
        self._checked_by_size += by_size
        self._mismatched += mismatched
        self._errors += errors + undecodable
        self._known_wrong_this_epoch += mismatched + errors + (no_samples if self._unread else 0)
        self._note(notes)

    def add_unmeasured(self, *, whole: int, mismatched: int, notes: Sequence[str]) -> None:
        """Take in one batch of the warm-up, of which wrong samples count.

        Args:
            whole: samples whose content was compared and right.
            mismatched: as of ``add``.
            notes: likewise.
        """
        self._checked_in_warmup += whole + mismatched
        self._mismatched += mismatched
        if mismatched:
            self._note(notes)

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
        own = np.array(
            [self._checked, self._checked_by_size, self._checked_in_warmup, self._mismatched, self._errors], np.int64
        )
        checked, checked_by_size, checked_in_warmup, mismatched, errors = map(int, self._ranks.sum(own))
        return VerificationCounts(
            checked=checked,
            checked_by_size=checked_by_size,
            checked_in_warmup=checked_in_warmup,
            mismatched=mismatched,
            missing=self._missing,
            duplicated=self._duplicated,
            errors=errors,
            notes=tuple(self._notes),
        )

    def _note(self, notes: Sequence[str]) -> None:
        self._notes.extend(notes[: max(NOTES_KEPT - len(self._notes), 0)])
