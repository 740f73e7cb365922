"""Which settings to measure next: Optuna's tree-structured Parzen estimator over lists of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import optuna

__all__ = ["Suggestion", "Suggestions"]

_EXCESS: Final = "excess_mib"
_AT_RANDOM: Final = 8  # settings before the first that is suggested by what was measured

Suggestion = tuple[int, ...]
"""The place of each key's value in its list, in the order of the keys."""


class Suggestions:
    """Suggests what to measure, learning from what was measured.

    The same seed and the same figures give the same suggestions.

    Args:
        values: the values of each key, as they are ordered. A list of two or more numbers counts as ordered, so that
            what lies between good values is tried; of other values each is by itself.
        seed: of the sampler.
    """

    def __init__(self, values: Mapping[str, Sequence[str]], *, seed: int) -> None:
        import optuna
        from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._distributions: dict[str, BaseDistribution] = {
            key: IntDistribution(0, len(listed) - 1)
            if all(map(_is_number, listed))
            else CategoricalDistribution(tuple(range(len(listed))))
            for key, listed in values.items()
        }
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_AT_RANDOM)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._asked: dict[Suggestion, list[optuna.Trial]] = {}

    def next(self) -> Suggestion:
        """What to measure, which may be what was suggested before."""
        trial = self._study.ask(self._distributions)
        suggestion = tuple(int(trial.params[key]) for key in self._distributions)
        self._asked.setdefault(suggestion, []).append(trial)
        return suggestion

    def tell(self, suggestion: Suggestion, value: float | None, *, excess_mib: float) -> None:
        """Say what was measured.

        Args:
            suggestion: as it was suggested.
            value: what is to be as high as it can; None where the measurement failed.
            excess_mib: by how much the limit of memory was exceeded; 0 or less where it was not.
        """
        import optuna

        for trial in self._asked.pop(suggestion, []):
            if value is None:
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                trial.set_constraint(_EXCESS, excess_mib)
                self._study.tell(trial, value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
