"""Where the configuration files lie: the user's own, or those in the package."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bucketbench.errors import ConfigurationError

__all__ = ["PACKAGED", "find_conf_directory"]

PACKAGED: Final = Path(__file__).parents[1] / "conf"
"""The directory that comes with the package."""


def find_conf_directory(scenario: str, *, current: Path | None = None, others: Iterable[Path] = ()) -> Path:
    """The first of ``./conf`` and the package's that has the scenario's file.

    Args:
        scenario: name of the scenario.
        current: the directory to look in first; the current one when None.
        others: directories that may have the scenario's file instead; the groups then are the package's.

    Raises:
        ConfigurationError: none has it; the message lists where was looked and which scenarios there are.
    """
    candidates = [(current or Path.cwd()) / "conf", PACKAGED]
    for candidate in candidates:
        if (candidate / f"{scenario}.yaml").is_file():
            return candidate
    candidates += others
    if any((candidate / f"{scenario}.yaml").is_file() for candidate in candidates):
        return PACKAGED
    known = sorted({file.stem for candidate in candidates for file in candidate.glob("*.yaml")})
    looked = ", ".join(str(candidate) for candidate in candidates)
    raise ConfigurationError(
        f"there is no configuration {scenario}.yaml in {looked}; the scenarios are: {', '.join(known) or 'none'}"
    )
