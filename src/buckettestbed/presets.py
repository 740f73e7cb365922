"""Settings by a preset's name, a YAML file's path, or written in line: how every option that takes them finds them."""

from collections.abc import Iterator
from pathlib import Path

import yaml

__all__ = ["PresetError", "preset_names", "read_preset"]


class PresetError(ValueError):
    """No such preset or file, or it is not YAML."""


def _folders(group: str) -> Iterator[Path]:
    """Yields where a group's presets may lie: the user's own conf, then the package's."""
    yield Path.cwd() / "conf" / group
    yield Path(__file__).parent / "conf" / group


def preset_names(group: str) -> list[str]:
    """Returns the names of the presets of a group (`network`, `faults`)."""
    return sorted({path.stem for folder in _folders(group) for path in folder.glob("*.yaml")})


def read_preset(text: str, *, group: str, what: str) -> tuple[object, str]:
    """Returns what a preset, a YAML file or a text in line holds, and where that came from, for messages.

    Args:
        text: a preset's name, a path that ends in `.yaml` or has a folder in it, or YAML that begins with `{` or `[`.
        group: folder below `conf/` that the presets lie in.
        what: what it is, for messages, such as `the network model`.

    Raises:
        PresetError: no such preset or file, or it is not YAML.
    """
    if text.lstrip().startswith(("{", "[")):
        return _parse(text, f"{what} given in line")
    path = Path(text)
    if text.endswith((".yaml", ".yml")) or path.name != text:
        try:
            return _parse(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise PresetError(f"cannot read {what} {path}: {error}") from error
    for folder in _folders(group):
        candidate = folder / f"{text}.yaml"
        if candidate.is_file():
            return _parse(candidate.read_text(encoding="utf-8"), str(candidate))
    raise PresetError(
        f"no {group} preset is named {text!r}; there are {', '.join(preset_names(group))}, or give a .yaml file"
    )


def _parse(text: str, origin: str) -> tuple[object, str]:
    try:
        return yaml.safe_load(text), origin
    except yaml.YAMLError as error:
        raise PresetError(f"{origin} is not YAML: {error}") from error
