"""Hydra's and OmegaConf's errors in one line that says what to change."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

from bucketbench.extras import installation

__all__ = ["explained"]

_LAUNCHERS: Final = frozenset({"joblib", "ray", "submitit"})
"""Launchers whose plugin an extra of the same name installs; submitit has several."""

_UNKNOWN_OPTION: Final = re.compile(r"Could not find '(?P<option>[^']+)'.*?Available options in '(?P<group>[^']+)':(?P<options>.*?)(?:Config search path|\\Z)", re.S)  # fmt: skip  # noqa: E501 - one pattern
_UNKNOWN_KEY: Final = re.compile(r"Could not override '(?P<key>[^']+)'")
_KEY_NOT_IN: Final = re.compile(r"Key '(?P<key>[^']+)' (?:not in '\w+'|is not in struct)")
_FULL_KEY: Final = re.compile(r"full_key: (?P<key>\S+)")
# What OmegaConf and Hydra add for their own developers.
_NOISE: Final = re.compile(
    r"^\s*(full_key: |object_type=|reference_type=|Config search path|provider=|See https?:|Set the env)"
)
_RAISED: Final = re.compile(r"^\w+ raised while resolving interpolation: ")


def explained(error: BaseException, *, scenario: str, keys: Iterable[str]) -> str:
    """Say in one line what was wrong with a configuration or an override, and what to write instead.

    Args:
        error: what Hydra or OmegaConf raised.
        scenario: name of the scenario.
        keys: the dotted keys that there are, for a suggestion.
    """
    text = "\n".join(_messages(error))
    option = _UNKNOWN_OPTION.search(text)
    if option is not None:
        # A folder of the user's and the package behind it may have one of the same name.
        known = ", ".join(dict.fromkeys(line.strip() for line in option["options"].splitlines() if line.strip()))
        group = option["group"]
        wrong = option["option"].removeprefix(f"{option['group']}/")
        extra = wrong.partition("_")[0]
        known_extra = group == "hydra/launcher" and extra in _LAUNCHERS
        install = f" ({installation(extra)} brings that one)" if known_extra else ""
        return f"{group}={wrong}: there is no {group} of that name{install}; the options are: {known}"
    key = _UNKNOWN_KEY.search(text)
    if key is not None and _KEY_NOT_IN.search(text):
        return _unknown_key(key["key"], scenario, keys)
    inner = _KEY_NOT_IN.search(text)
    if inner is not None:
        full = _FULL_KEY.search(text)
        return _unknown_key(full["key"] if full else inner["key"], scenario, keys)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    told = [_RAISED.sub("", line) for line in lines if line and not _NOISE.match(line)]
    kept = "; ".join(told) or type(error).__name__
    unparsed = getattr(error, "override", None)
    if unparsed is not None:
        return f"{unparsed} is no override: {kept}; expected KEY=VALUE, KEY=A,B or KEY=range(5), quoted for the shell"
    return kept


def _unknown_key(key: str, scenario: str, keys: Iterable[str]) -> str:
    close = difflib.get_close_matches(key, list(keys), n=1, cutoff=0.75)
    hint = f": did you mean {close[0]}?" if close else ""
    return (
        f"{key} is no key of the configuration{hint} (conf/{scenario}.yaml and docs/configuration.md explain each key)"
    )


def _messages(error: BaseException) -> list[str]:
    messages = []
    current: BaseException | None = error
    while current is not None:
        if str(current) not in messages:
            messages.append(str(current))
        current = current.__cause__
    return messages
