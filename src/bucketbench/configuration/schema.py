"""The schema of ``conf/dataset.yaml`` and its groups, and the checks of its values.

The classes here give names and types; Hydra refuses an unknown key or a wrong type when it composes. They are plain,
mutable dataclasses, since that is what a structured configuration has to be: a frozen one would be read-only and could
take no override. ``checked`` then looks at the values and returns frozen ones.

This module imports neither Hydra nor OmegaConf: ``"???"`` is OmegaConf's mark for a value that must be given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Optional

from bucketbench.errors import ConfigurationError
from bucketbench.units import parse_count, parse_resolution, parse_size

__all__ = [
    "MAX_EPOCHS",
    "MISSING",
    "START_METHODS",
    "ClientConfig",
    "DataConfig",
    "DataloaderConfig",
    "DatasetConfig",
    "ModelConfig",
    "TargetConfig",
    "WorkloadConfig",
    "check",
]

MISSING: Final = "???"
"""What a key holds that must be set by the user."""

START_METHODS: Final = ("auto", "fork", "forkserver", "spawn")
DEVICES: Final = ("auto", "cpu", "cuda")
MAX_EPOCHS: Final = 10_000
ROLES: Final = ("contestant", "reference", "ceiling")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}", re.ASCII)
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*([.:][A-Za-z_]\w*)+", re.ASCII)

# OmegaConf reads the annotations of these classes at run time and knows Optional[...] in every version of Python.
# ruff: noqa: UP045


@dataclass(kw_only=True)
class TargetConfig:
    """Where the data lie. Every key is explained in ``conf/target/*.yaml``."""

    name: str = MISSING
    testbed: bool = False
    scheme: str = "s3"
    bucket: str = MISSING
    endpoint: Optional[str] = None
    region: Optional[str] = None
    path_style: bool = False
    anonymous: bool = False
    ca_bundle: Optional[str] = None
    tls: bool = True


@dataclass(kw_only=True)
class DataConfig:
    """What the data set consists of. Every key is explained in ``conf/data/*.yaml``."""

    name: str = MISSING
    num_samples: Any = MISSING
    sample_size: Any = MISSING
    size_distribution: str = "constant"
    size_sigma: float = 0.5
    size_spread: float = 0.5
    image_format: str = "jpeg"
    resolution: Optional[str] = None
    seed: int = 0
    prefix: Optional[str] = None
    generate: bool = True


@dataclass(kw_only=True)
class ClientConfig:
    """A client under comparison. Every key is explained in ``docs/configuration.md``."""

    name: str = MISSING
    _target_: str = MISSING
    role: str = "contestant"
    requires: list[str] = field(default_factory=list)
    path: Optional[str] = None
    environment: Optional[str] = None
    schemes: list[str] = field(default_factory=lambda: ["s3", "gs"])
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class WorkloadConfig:
    """A published training workload that data, DataLoader and model were set after; see ``conf/workload/*.yaml``."""

    name: str = "none"
    scale: float = 1.0


@dataclass(kw_only=True)
class ModelConfig:
    """What is done with a sample once it is there. Every key is explained in ``docs/configuration.md``."""

    name: str = MISSING
    _target_: str = MISSING
    requires: list[str] = field(default_factory=list)
    path: Optional[str] = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class DataloaderConfig:
    """How ``torch.utils.data.DataLoader`` is set up. Every key is explained in ``conf/dataloader/*.yaml``."""

    num_workers: int = 2
    batch_size: int = 32
    prefetch_factor: int = 2
    start_method: str = "auto"
    persistent_workers: bool = True
    pin_memory: bool = False
    shuffle: bool = False


@dataclass(kw_only=True)
class DatasetConfig:
    """The dataset scenario. Every key is explained in ``conf/dataset.yaml``."""

    scenario: str = "dataset"
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    target: TargetConfig = field(default_factory=TargetConfig)
    network: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, Any] = field(default_factory=dict)
    data: DataConfig = field(default_factory=DataConfig)
    client: ClientConfig = field(default_factory=ClientConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    dataloader: DataloaderConfig = field(default_factory=DataloaderConfig)
    epochs: Any = "auto"
    min_measured_s: float = 1.0
    warmup_samples: int = 32
    repeat: int = 0
    disambiguator: Optional[str] = None
    seed: int = 0
    device: str = "auto"
    time_limit_s: float = 300.0
    cache_dir: str = ".bucketbench"


# Values, each with the range that is accepted and the words for it.
_Test = Callable[[Any], bool]  # may raise ValueError, whose message is then shown


def _whole(least: int, most: int) -> tuple[_Test, str]:
    return (
        lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
        f"a whole number from {least} to {most}",
    )


def _positive(most: float) -> tuple[_Test, str]:
    return (
        lambda value: isinstance(value, int | float) and math.isfinite(value) and 0 < value <= most,
        f"a number above 0, at most {most:g}",
    )


def _one_of(choices: Sequence[str]) -> tuple[_Test, str]:
    return lambda value: value in choices, f"one of {', '.join(choices)}"


def _matching(pattern: re.Pattern[str], words: str) -> tuple[_Test, str]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None, words


def _parsed(parse: Callable[[Any], Any], words: str) -> tuple[_Test, str]:
    def accepts(value: Any) -> bool:
        parse(value)
        return True

    return accepts, words


def _is_prefix(value: Any) -> bool:
    # It is also the name of a directory, below cache_dir: it must not lead out of it.
    segments = str(value).removesuffix("/").split("/")
    if not isinstance(value, str) or any(segment in ("", ".", "..") for segment in segments) or "\0" in value:
        raise ValueError(
            "expected null or the beginning of a key, such as datasets/photos, without . or .. or // in it"
        )
    return True


_PLAIN_NAME = _matching(_NAME, "a name of letters, digits and ._+- that begins with a letter or digit")
_DOTTED_PATH = _matching(_DOTTED, "the dotted path of a class, such as my_module.MyClient")

_RULES: Final[Mapping[str, tuple[_Test, str]]] = {
    "epochs": (
        lambda value: value == "auto" or _whole(1, MAX_EPOCHS)[0](value),
        f"auto, or a whole number from 1 to {MAX_EPOCHS}",
    ),
    "min_measured_s": _positive(86_400),
    "warmup_samples": _whole(0, 10**9),
    "repeat": _whole(0, 10_000),
    "disambiguator": (lambda v: v is None or _NAME.fullmatch(v) is not None, _PLAIN_NAME[1]),
    "seed": _whole(0, 2**32 - 1),
    "device": _one_of(DEVICES),
    "time_limit_s": _positive(7 * 86_400),
    "target.name": _PLAIN_NAME,
    "target.scheme": _one_of(("s3", "gs")),
    # Source: Amazon S3 User Guide, "General purpose bucket naming rules"; older buckets may have more characters.
    "target.bucket": _matching(re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]"), "the name of a bucket"),
    "data.name": _PLAIN_NAME,
    "data.num_samples": _parsed(parse_count, "a whole number such as 2000 or 100k"),
    "data.sample_size": _parsed(parse_size, "a size such as 100KiB or 1MiB"),
    "data.prefix": (lambda value: value is None or _is_prefix(value), "null or the beginning of a key"),
    "data.resolution": (
        lambda value: value is None or bool(parse_resolution(value)),
        "null or WIDTHxHEIGHT in pixels, such as 256x256",
    ),
    "client.name": _PLAIN_NAME,
    "client._target_": _DOTTED_PATH,
    "client.role": _one_of(ROLES),
    "model.name": _PLAIN_NAME,
    "model._target_": _DOTTED_PATH,
    "dataloader.num_workers": _whole(0, 1024),
    "dataloader.batch_size": _whole(1, 1_000_000),
    "dataloader.prefetch_factor": _whole(1, 1024),
    "dataloader.start_method": _one_of(START_METHODS),
}


def check(config: Mapping[str, Any]) -> None:
    """Raise where a value of one composed and resolved configuration is unset or out of its range.

    Args:
        config: the configuration as plain nested mappings.

    Raises:
        ConfigurationError: names the key, the value, what is accepted, and the override that sets it.
    """
    unset = sorted(_unset(config))
    if unset:
        examples = " ".join(f"{key}=VALUE" for key in unset)
        raise ConfigurationError(
            f"{_listed(unset)} must be set and {'is' if len(unset) == 1 else 'are'} not: "
            f"add {examples} to the command, or set it in the configuration's file"
        )
    unknown = sorted(set(config) - {f.name for f in fields(DatasetConfig)})
    if unknown:
        raise ConfigurationError(
            f"{_listed(unknown)} is no key of the {config.get('scenario', 'dataset')} scenario and would have no "
            f"effect: leave it out (the keys are {', '.join(f.name for f in fields(DatasetConfig))})"
        )
    for key, (accepts, words) in _RULES.items():
        value = _select(config, key)
        try:
            accepted, reason = accepts(value), f"expected {words}"
        except ValueError as error:
            accepted, reason = False, str(error)
        if not accepted:
            raise ConfigurationError(f"{key}={value} cannot be used: {reason}")


def _select(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = value[part]
    return value


def _unset(value: Any, path: str = "") -> list[str]:
    if value == MISSING:
        return [path]
    if isinstance(value, Mapping):
        return [found for key, item in value.items() for found in _unset(item, f"{path}.{key}" if path else str(key))]
    return []


def _listed(keys: Sequence[str]) -> str:
    return " and ".join(keys)
