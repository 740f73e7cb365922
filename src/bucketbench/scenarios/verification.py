"""What a job's check of what arrived came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

__all__ = ["NOTES_KEPT", "VerificationCounts"]

NOTES_KEPT: Final = 5
"""How many of the things that were wrong are told in words: enough to see what goes wrong, of perhaps a million."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerificationCounts:
    """What the measured passes delivered, all of them together.

    Args:
        checked: samples whose content was compared.
        mismatched: samples with an unknown key, a wrong size or wrong content.
        missing: samples that no batch delivered and for which no error was reported, counted once an epoch.
        duplicated: deliveries of a sample beyond its first in an epoch.
        errors: samples that the client failed to deliver, or the model to decode.
        notes: the first few things that were wrong, in words.
    """

    counted: ClassVar[str] = "samples of the measured epochs"
    """What is counted, for the reason of a failure."""

    checked: int
    mismatched: int
    missing: int
    duplicated: int
    errors: int
    notes: tuple[str, ...] = ()

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
