"""Where the configuration files lie: the user's own, or those in the package."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bucketbench.errors import ConfigurationError

__all__ = ["checked_config_directories", "find_conf_directory"]


def find_conf_directory(scenario: str, *, current: Path | None = None) -> Path:
    """The first of ``./conf`` and the package's that has the scenario's file.

    Args:
        scenario: name of the scenario.
        current: the directory to look in first; the current one when None.

    Raises:
        ConfigurationError: none has it; the message lists where was looked and which scenarios there are.
    """
    candidates = [(current or Path.cwd()) / "conf", Path(__file__).parents[1] / "conf"]
    for candidate in candidates:
        if (candidate / f"{scenario}.yaml").is_file():
            return candidate
    known = sorted({file.stem for candidate in candidates for file in candidate.glob("*.yaml")})
    looked = ", ".join(str(candidate) for candidate in candidates)
    raise ConfigurationError(
        f"there is no configuration {scenario}.yaml in {looked}; the scenarios are: {', '.join(known) or 'none'}"
    )


def checked_config_directories(directories: Iterable[Path]) -> tuple[Path, ...]:
    """The absolute paths of the directories given by ``--config-dir``.

    Raises:
        ConfigurationError: one is no directory.
    """
    absolute = tuple(directory.expanduser().absolute() for directory in directories)
    for directory in absolute:
        if not directory.is_dir():
            raise ConfigurationError(f"--config-dir {directory} is no directory; it should hold, say, client/NAME.yaml")
    return absolute
