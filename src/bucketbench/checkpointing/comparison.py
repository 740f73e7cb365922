"""Compares states that were loaded with those that were saved, tensor by tensor, to the last byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from bucketbench.ranks import Ranks
from bucketbench.scenarios.verification import NOTES_KEPT, VerificationCounts

__all__ = ["StateComparison", "TensorCounts"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorCounts(VerificationCounts):
    """What the measured loads gave, all of them together.

    ``mismatched`` are tensors of other content, shape or type, or that nobody saved; ``missing`` are those that were
    saved and not loaded.
    """

    counted: ClassVar[str] = "tensors of the loaded checkpoints"


class StateComparison:
    """Counts over all states that were compared. Not for use by several threads."""

    def __init__(self) -> None:
        self._checked = self._mismatched = self._missing = 0
        self._notes: list[str] = []

    def compare(self, saved: Mapping[str, torch.Tensor], loaded: Any, *, key: str) -> int:
        """Compare one loaded state and return how many of its tensors are wrong or missing.

        Args:
            saved: the state as it was saved.
            loaded: what the client returned.
            key: the checkpoint's, for the note.
        """
        if not isinstance(loaded, Mapping):
            self._missing += len(saved)
            self._note(f"{key} was loaded as {type(loaded).__name__}, not as a dictionary of tensors")
            return len(saved)
        wrong = 0
        for name, expected in saved.items():
            if name not in loaded:
                self._missing += 1
                self._note(f"{name} of {key} was not loaded")
                wrong += 1
                continue
            self._checked += 1
            difference = _difference(expected, loaded[name])
            if difference is not None:
                self._mismatched += 1
                self._note(f"{name} of {key} {difference}")
                wrong += 1
        for name in [name for name in loaded if name not in saved]:
            self._checked += 1
            self._mismatched += 1
            self._note(f"{name} of {key} was loaded and never saved")
            wrong += 1
        return wrong

    @property
    def found_wrong(self) -> bool:
        """Whether anything so far was not as it was saved, on this rank."""
        return bool(self._mismatched or self._missing)

    def add(self, other: StateComparison) -> None:
        """Count what another one has compared as well."""
        self._checked += other._checked
        self._mismatched += other._mismatched
        self._missing += other._missing
        self._notes = [*self._notes, *other._notes][:NOTES_KEPT]

    def counts(self, ranks: Ranks) -> TensorCounts:
        """The counts of all ranks so far; each has notes of its own."""
        own = np.array([self._checked, self._mismatched, self._missing], dtype=np.int64)
        checked, mismatched, missing = map(int, ranks.sum(own))
        return TensorCounts(
            checked=checked,
            mismatched=mismatched,
            missing=missing,
            duplicated=0,
            errors=0,
            notes=tuple(self._notes),
        )

    def _note(self, text: str) -> None:
        if len(self._notes) < NOTES_KEPT:
            self._notes.append(text)


def _difference(expected: torch.Tensor, loaded: Any) -> str | None:
    """How a loaded tensor differs, None where it does not."""
    if not isinstance(loaded, torch.Tensor):
        return f"was loaded as {type(loaded).__name__}, not as a tensor"
    if loaded.shape != expected.shape or loaded.dtype != expected.dtype:
        return f"is {_form(loaded)}, not {_form(expected)}"
    if loaded.numel() and loaded.data_ptr() == expected.data_ptr():
        return "is the tensor that was saved, and was not loaded"
    # As bytes: a NaN is equal to itself.
    if not torch.equal(_bytes(loaded), _bytes(expected)):
        return "has other content than was saved"
    return None


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)


def _form(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {list(tensor.shape)}"
