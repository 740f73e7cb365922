"""Network models and faults by a preset's name, a YAML file's path, or written in line."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from buckettestbed.faults.plan import FaultSet
from buckettestbed.faults.rules import FaultError
from buckettestbed.network.model import NetworkModel, NetworkModelError

__all__ = ["Faults", "load_faults", "load_network", "preset_names"]

Faults = str | Mapping[str, object] | Sequence[object]
"""Faults as a caller gives them: a preset's name (`none` for no faults), a YAML file's path, YAML in line
(`[{kind: reset, nth: 3}]`), a mapping of `seed` and `rules`, or a list of rules."""


def load_network(text: str) -> NetworkModel:
    """Returns the model for a preset's name, a YAML file's path, or a mapping written in line (`{first_byte_s: 0.02}`).

    Raises:
        NetworkModelError: no such preset or file, or it does not hold a valid model.
    """
    try:
        values, origin = _read(text, group="network", what="the network model")
    except _PresetError as error:
        raise NetworkModelError(str(error)) from error
    if not isinstance(values, dict):
        raise NetworkModelError(f"{origin} holds {type(values).__name__}; expected fields with their values")
    try:
        return NetworkModel.from_mapping(values)
    except NetworkModelError as error:
        raise NetworkModelError(f"{origin}: {error}") from error


def load_faults(value: Faults) -> FaultSet:
    """Returns the faults that are meant.

    Raises:
        FaultError: no such preset or file, or it does not hold valid rules; it says which rule is wrong and how.
    """
    if not isinstance(value, str):
        return FaultSet.from_value(value)
    try:
        values, origin = _read(value, group="faults", what="the faults")
    except _PresetError as error:
        raise FaultError(str(error)) from error
    try:
        return FaultSet.from_value(values)
    except FaultError as error:
        raise FaultError(f"{origin}: {error}") from error


def preset_names(group: str) -> list[str]:
    """Returns the names of the presets of a group (`network`, `faults`)."""
    return sorted({path.stem for folder in _folders(group) for path in folder.glob("*.yaml")})


class _PresetError(ValueError):
    """No such preset or file, or it is not YAML."""


def _folders(group: str) -> tuple[Path, Path]:
    """Returns where a group's presets may lie: the user's own conf, then the package's."""
    return Path.cwd() / "conf" / group, Path(__file__).parent / "conf" / group


def _read(text: str, *, group: str, what: str) -> tuple[object, str]:
    """Returns what a preset, a YAML file or a text in line holds, and where that came from, for messages."""
    if text.lstrip().startswith(("{", "[")):
        return _parse(text, f"{what} given in line")
    path = Path(text)
    if text.endswith((".yaml", ".yml")) or path.name != text:
        return _parse_file(path, what)
    for folder in _folders(group):
        if (path := folder / f"{text}.yaml").is_file():
            return _parse_file(path, what)
    raise _PresetError(
        f"no {group} preset is named {text!r}; there are {', '.join(preset_names(group))}, or give a .yaml file"
    )


def _parse_file(path: Path, what: str) -> tuple[object, str]:
    try:
        return _parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise _PresetError(f"cannot read {what} {path}: {error}") from error


def _parse(text: str, origin: str) -> tuple[object, str]:
    import yaml  # here, so that the command can say what to install where it is not there

    try:
        return yaml.safe_load(text), origin
    except yaml.YAMLError as error:
        raise _PresetError(f"{origin} is not YAML: {error}") from error
