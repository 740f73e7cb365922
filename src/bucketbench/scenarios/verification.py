"""What a job's check of what arrived came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

__all__ = ["NOTES_KEPT", "VerificationCounts"]

NOTES_KEPT: Final = 5
"""How many of the things that were wrong are told in words: enough to see what goes wrong, of perhaps a million."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerificationCounts:
    """What the measured passes delivered, all of them together, and what was wrong before them.

    Args:
        checked: samples of the measured passes that were compared with what they should be.
        mismatched: samples with an unknown key, a wrong size or wrong content, those of the warm-up included.
        missing: samples that no batch delivered and for which no error was reported, counted once an epoch.
        duplicated: deliveries of a sample beyond its first in an epoch.
        errors: samples that the client failed to deliver, or the model to decode.
        notes: the first few things that were wrong, in words.
        checked_by_size: of ``checked`` those of which key and size were compared and not the content; the rest was
            compared whole.
        checked_in_warmup: samples of a warm-up that were compared whole; they are not among ``checked``.
    """

    counted: ClassVar[str] = "samples of the warm-up and the measured epochs"
    """What is counted, for the reason of a failure."""

    checked: int
    mismatched: int
    missing: int
    duplicated: int
    errors: int
    notes: tuple[str, ...] = ()
    checked_by_size: int = 0
    checked_in_warmup: int = 0

    @property
    def failure(self) -> str | None:
        """Why the job has failed, None where everything arrived as it should."""
        counts = {
            "failed with an error": self.errors,
            "arrived with wrong content": self.mismatched,
            "never arrived": self.missing,
            "arrived more than once": self.duplicated,
        }
        wrong = [f"{count} {words}" for words, count in counts.items() if count]
        if not wrong:
            return None
        first = f"; first: {self.notes[0]}" if self.notes else ""
        return f"of the {self.counted}, {', '.join(wrong)}{first}"
