"""What was loaded is compared with what was saved to the last byte, and what differs is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from bucketbench.checkpointing.comparison import StateComparison
from bucketbench.ranks import Ranks


def saved() -> dict[str, torch.Tensor]:
    return {
        "weight": torch.arange(12.0).reshape(3, 4),
        "nan": torch.tensor([float("nan"), -0.0]),
        "half": torch.ones(5, dtype=torch.bfloat16),
        "scalar": torch.tensor(3),
        "empty": torch.empty(0, 2),
        "turned": torch.arange(6.0).reshape(2, 3).t(),
    }


def compared(change: Callable[[dict[str, Any]], Any]) -> tuple[int, Any]:
    expected = saved()
    loaded: Any = {name: tensor.clone() for name, tensor in expected.items()}
    loaded = change(loaded) or loaded
    comparison = StateComparison()
    return comparison.compare(expected, loaded, key="step-3.pt"), comparison.counts(Ranks())


def test_equal_states_are_right() -> None:
    wrong, counts = compared(lambda loaded: None)
    assert wrong == 0
    assert (counts.checked, counts.failure) == (6, None)


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a bit": (
        lambda loaded: loaded["weight"].view(-1)[7:8].add_(1e-6) and None,
        "weight of step-3.pt has other content",
    ),
    "a sign of zero": (lambda loaded: loaded["nan"][1:].abs_() and None, "nan of step-3.pt has other content"),
    "a shape": (lambda loaded: loaded.update(weight=loaded["weight"].reshape(4, 3)), r"of shape \[4, 3\], not float32"),
    "a type": (lambda loaded: loaded.update(half=loaded["half"].half()), "is float16 of shape"),
    "a missing tensor": (lambda loaded: loaded.pop("scalar") and None, "scalar of step-3.pt was not loaded"),
    "one too many": (lambda loaded: loaded.update(more=torch.ones(1)), "more of step-3.pt was loaded and never saved"),
    "no tensor": (lambda loaded: loaded.update(scalar=3), "was loaded as int, not as a tensor"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_difference_is_counted_once_and_told(name: str) -> None:
    change, words = CHANGES[name]

    def apply(loaded: dict[str, Any]) -> None:
        change(loaded)

    wrong, counts = compared(apply)
    assert wrong == 1
    assert counts.mismatched + counts.missing == 1
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(counts.failure)


def test_something_else_than_a_state_is_wrong_as_a_whole() -> None:
    wrong, counts = compared(lambda loaded: [*loaded])
    assert (wrong, counts.missing) == (6, 6)
    assert "step-3.pt was loaded as list" in str(counts.failure)


def test_the_saved_tensors_themselves_are_no_load() -> None:
    expected, comparison = saved(), StateComparison()
    assert comparison.compare(expected, dict(expected), key="k") == 5, "all but the empty one"
    assert "is the tensor that was saved" in str(comparison.counts(Ranks()).failure)
