"""Which clients can read which target: each says in its configuration what schemes it serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from bucketbench.configuration.directory import find_conf_directory
from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import PreflightError
from bucketbench.scenarios import find_scenario

__all__ = ["check_scheme"]


def check_scheme(point: JobSettings) -> None:
    """Raise where a client cannot read the kind of address that the target is.

    Raises:
        PreflightError: with the clients that can.
    """
    scheme = point.scheme
    if scheme in point.config["client"]["schemes"]:
        return
    fitting = sorted(name for name, schemes in _configured(point) if schemes is None or scheme in schemes)
    served = " and ".join(point.config["client"]["schemes"])
    chosen = f"target={point.config['target']['name']}" if scheme != "file" else "checkpoint.storage=disk"
    raise PreflightError(
        f"client={point.client.name} reads {served}, and {chosen} is {scheme}: choose another one, or of the clients "
        f"of {scheme}: {', '.join(fitting)}"
    )


def _configured(point: JobSettings) -> Iterator[tuple[str, list[str] | None]]:
    """The name and schemes of every client that the configuration has; None where a file leaves them out."""
    others = [Path(directory) for directory in point.config_directories]
    folder = find_scenario(point.scenario).clients or point.scenario
    for directory in (find_conf_directory(point.scenario, others=others) / folder, *others):
        for path in (directory / "client").glob("*.yaml"):
            try:
                fields = yaml.safe_load(path.read_text(encoding="utf-8"))
            except (OSError, yaml.YAMLError):
                continue  # choosing it says what is wrong with it
            if isinstance(fields, dict):
                yield path.stem, fields.get("schemes")
