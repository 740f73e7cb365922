"""Finding and reading network models by name or file."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from bucketbench.testbed.network.model import NetworkModel, NetworkModelError

__all__ = ["load_network", "preset_names"]

_SOURCE_TREE = 5
"""Parents from this file to the repository: network, testbed, bucketbench, src, repository."""


def _folders() -> Iterator[Path]:
    """Yields where presets may lie: the user's own conf, the repository's, the installed package's."""
    here = Path(__file__).resolve()
    yield Path.cwd() / "conf" / "network"
    if here.parents[_SOURCE_TREE - 2].name == "src":
        yield here.parents[_SOURCE_TREE - 1] / "conf" / "network"
    yield here.parents[1] / "conf" / "network"


def preset_names() -> list[str]:
    """Returns the names that `load_network` knows."""
    return sorted({path.stem for folder in _folders() for path in folder.glob("*.yaml")})


def load_network(text: str) -> NetworkModel:
    """Returns the model for a preset's name, a YAML file's path, or a mapping written in line (`{first_byte_s: 0.02}`).

    Raises:
        NetworkModelError: no such preset or file, or it does not hold a valid model.
    """
    if text.lstrip().startswith("{"):
        return _parse(text, "the network model given in line")
    path = Path(text)
    if text.endswith((".yaml", ".yml")) or path.name != text:
        try:
            return _parse(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise NetworkModelError(f"cannot read the network model {path}: {error}") from error
    for folder in _folders():
        candidate = folder / f"{text}.yaml"
        if candidate.is_file():
            return _parse(candidate.read_text(encoding="utf-8"), str(candidate))
    raise NetworkModelError(
        f"no network preset is named {text!r}; there are {', '.join(preset_names())}, or give a .yaml file"
    )


def _parse(text: str, origin: str) -> NetworkModel:
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise NetworkModelError(f"{origin} is not YAML: {error}") from error
    if not isinstance(values, dict):
        raise NetworkModelError(f"{origin} holds {type(values).__name__}; expected fields with their values")
    try:
        return NetworkModel.from_mapping(values)
    except NetworkModelError as error:
        raise NetworkModelError(f"{origin}: {error}") from error
