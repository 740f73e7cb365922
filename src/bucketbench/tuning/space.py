"""What is searched: the keys that have several values, and what all settings have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hydra.core.override_parser.types import Override

from bucketbench.errors import ConfigurationError
from bucketbench.sweep.points import client_option, option_override, options_by_client, values_of
from bucketbench.tuning.suggestions import Suggestion

__all__ = ["Space", "space_of"]

_CLIENT = "client"
_REPEAT = "repeat"


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """A space of settings.

    Args:
        fixed: overrides that every setting has.
        searched: the overrides that each searched key may have, one a value.
        repeats: the overrides of the repeats of the last comparison.
        default_client: who is measured where no override says it.
    """

    fixed: tuple[str, ...]
    searched: Mapping[str, tuple[str, ...]]
    repeats: tuple[str, ...]
    default_client: str

    @property
    def values(self) -> dict[str, list[str]]:
        """The values of each searched key."""
        return {key: [text.partition("=")[2] for text in texts] for key, texts in self.searched.items()}

    @property
    def size(self) -> int:
        """How many settings there are: an option of one client makes no settings of the others."""
        every = {key: len(texts) for key, texts in self.searched.items()}
        owners = {key: owned[0] for key in every if (owned := client_option(key))}
        clients = [text.partition("=")[2] for text in self.searched.get(_CLIENT, ())] or [self._client(self.fixed)]
        common = math.prod(count for key, count in every.items() if key not in owners and key != _CLIENT)
        own = (math.prod(every[key] for key, owner in owners.items() if owner == client) for client in clients)
        return common * sum(own)

    def overrides(self, suggestion: Suggestion) -> tuple[str, ...]:
        """Those by which a setting differs from the reference, which has none."""
        chosen = [texts[place] for texts, place in zip(self.searched.values(), suggestion, strict=True)]
        client = self._client([*self.fixed, *chosen])
        return tuple(text for text in chosen if _concerns(text, client))

    def command(self, setting: Sequence[str]) -> tuple[str, ...]:
        """What the command of a sweep has to say to measure a setting."""
        every = (*self.fixed, *setting)
        client = self._client(every)
        return tuple(text for text in every if _concerns(text, client))

    def point(self, setting: Sequence[str]) -> tuple[str, ...]:
        """The overrides from which a setting's configuration is composed."""
        return tuple(_composable(text) for text in self.command(setting))

    def each_value(self) -> dict[str, list[tuple[str, ...]]]:
        """For each key settings of which each of its values is one: the reference, changed in that key."""
        return {key: [self._changed(key, text) for text in texts] for key, texts in self.searched.items()}

    def _changed(self, key: str, text: str) -> tuple[str, ...]:
        owned = client_option(key)
        if owned is None or owned[0] == self._client(self.fixed):
            return (text,)
        return (f"{_CLIENT}={owned[0]}", text)

    def _client(self, texts: Sequence[str]) -> str:
        chosen = [text.partition("=")[2] for text in texts if text.startswith(f"{_CLIENT}=")]
        return chosen[-1] if chosen else self.default_client


def space_of(written: Sequence[Override], given: Sequence[Override], *, default_client: str) -> Space:
    """The space that overrides describe: what a sweep would combine is what is searched, but the repeats.

    Args:
        written: those of ``hydra.sweeper.params``. Of keys with several values they count where the command has none.
        given: those of the command.
        default_client: who is measured where none says it.

    Raises:
        ConfigurationError: no key has several values, or one has no list of them, or is of a client that is not
            measured.
    """
    values, said = values_of(written), values_of(given)
    if any(len(texts) > 1 for key, texts in said.items() if key != _REPEAT):
        values = {key: texts for key, texts in values.items() if len(texts) == 1 or key == _REPEAT}
    values |= said
    repeats = tuple(values.pop(_REPEAT, ()))
    clients = [text.partition("=")[2] for text in values.get(_CLIENT, ())] or [default_client]
    options_by_client(clients, {key: texts for key, texts in values.items() if client_option(key)})  # its own check
    searched = {key: tuple(texts) for key, texts in values.items() if len(texts) > 1}
    if not searched:
        raise ConfigurationError(
            "hydra/sweeper=optuna has nothing to search: give a key several values, such as "
            "dataloader.num_workers=0,2,4,8"
        )
    fixed = tuple(texts[0] for key, texts in values.items() if key not in searched)
    return Space(fixed=fixed, searched=searched, repeats=repeats, default_client=default_client)


def _concerns(text: str, client: str) -> bool:
    """Whether an override means something for a client: one of another client's options does not."""
    owned = client_option(text.partition("=")[0])
    return owned is None or owned[0] == client


def _composable(text: str) -> str:
    key, _, value = text.partition("=")
    owned = client_option(key)
    return text if owned is None else option_override(owned[1], value)
