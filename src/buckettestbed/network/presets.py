"""Finding and reading network models by name or file."""

from buckettestbed import presets
from buckettestbed.network.model import NetworkModel, NetworkModelError

__all__ = ["load_network", "preset_names"]


def preset_names() -> list[str]:
    """Returns the names that `load_network` knows."""
    return presets.preset_names("network")


def load_network(text: str) -> NetworkModel:
    """Returns the model for a preset's name, a YAML file's path, or a mapping written in line (`{first_byte_s: 0.02}`).

    Raises:
        NetworkModelError: no such preset or file, or it does not hold a valid model.
    """
    try:
        values, origin = presets.read_preset(text, group="network", what="the network model")
    except presets.PresetError as error:
        raise NetworkModelError(str(error)) from error
    if not isinstance(values, dict):
        raise NetworkModelError(f"{origin} holds {type(values).__name__}; expected fields with their values")
    try:
        return NetworkModel.from_mapping(values)
    except NetworkModelError as error:
        raise NetworkModelError(f"{origin}: {error}") from error
