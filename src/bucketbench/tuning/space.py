"""What is searched: the keys that have several values, and what all settings have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hydra.core.override_parser.types import Override

from bucketbench.errors import ConfigurationError
from bucketbench.sweep.points import values_of
from bucketbench.tuning.suggestions import Suggestion

__all__ = ["Space", "space_of"]

_REPEAT = "repeat"


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """A space of settings.

    Args:
        fixed: overrides that every setting has.
        searched: the overrides that each searched key may have, one a value.
        repeats: the overrides of the repeats of the last comparison.
    """

    fixed: tuple[str, ...]
    searched: Mapping[str, tuple[str, ...]]
    repeats: tuple[str, ...]

    @property
    def values(self) -> dict[str, list[str]]:
        """The values of each searched key."""
        return {key: [text.partition("=")[2] for text in texts] for key, texts in self.searched.items()}

    @property
    def size(self) -> int:
        """How many settings there are."""
        return math.prod(len(texts) for texts in self.searched.values())

    def overrides(self, suggestion: Suggestion) -> tuple[str, ...]:
        """Those by which a setting differs from the reference, which has none."""
        return tuple(texts[place] for texts, place in zip(self.searched.values(), suggestion, strict=True))

    def each_value(self) -> list[tuple[str, ...]]:
        """Settings of which each value of each key is one: the reference, changed in one key."""
        return [(text,) for texts in self.searched.values() for text in texts]


def space_of(written: Sequence[Override], given: Sequence[Override]) -> Space:
    """The space that overrides describe: what a sweep would combine is what is searched, but the repeats.

    Args:
        written: those of ``hydra.sweeper.params``. Of keys with several values they count where the command has none.
        given: those of the command.

    Raises:
        ConfigurationError: no key has several values, or one has no list of them.
    """
    values, said = values_of(written), values_of(given)
    if any(len(texts) > 1 for key, texts in said.items() if key != _REPEAT):
        values = {key: texts for key, texts in values.items() if len(texts) == 1 or key == _REPEAT}
    values |= said
    repeats = tuple(values.pop(_REPEAT, ()))
    searched = {key: tuple(texts) for key, texts in values.items() if len(texts) > 1}
    if not searched:
        raise ConfigurationError(
            "hydra/sweeper=optuna has nothing to search: give a key several values, such as "
            "dataloader.num_workers=0,2,4,8"
        )
    fixed = tuple(texts[0] for key, texts in values.items() if key not in searched)
    return Space(fixed=fixed, searched=searched, repeats=repeats)
