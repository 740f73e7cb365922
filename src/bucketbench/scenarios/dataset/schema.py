"""The schema of ``conf/dataset.yaml`` and its groups, and which values their keys take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Optional

from bucketbench.configuration.schema import MISSING, WORKLOAD_RULES, ClientConfig, ScenarioConfig, WorkloadConfig
from bucketbench.configuration.values import (
    DOTTED_PATH,
    PLAIN_NAME,
    Rule,
    one_of,
    optional,
    parsed,
    prefix,
    whole,
)
from bucketbench.units import parse_count, parse_resolution, parse_size

__all__ = [
    "MAX_EPOCHS",
    "RULES",
    "START_METHODS",
    "DataConfig",
    "DataloaderConfig",
    "DatasetClientConfig",
    "DatasetConfig",
    "ModelConfig",
]

START_METHODS: Final = ("auto", "fork", "forkserver", "spawn")
SAMPLES: Final = ("objects", "members")
DEVICES: Final = ("auto", "cpu", "cuda")
MAX_EPOCHS: Final = 10_000

# OmegaConf reads the annotations of these classes at run time and knows Optional[...] in every version of Python.
# ruff: noqa: UP045


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
    shard_size: Any = None
    samples_per_shard: Any = None
    extensions: list[str] = field(default_factory=lambda: ["cls"])
    num_classes: Any = 1000
    seed: int = 0
    prefix: Optional[str] = None
    generate: bool = True
    existing: bool = False
    max_samples: Any = None


@dataclass(kw_only=True)
class ModelConfig:
    """What is done with a sample once it is there. Every key is explained in ``docs/configuration.md``."""

    name: str = MISSING
    _target_: str = MISSING
    requires: list[str] = field(default_factory=list)
    decodes: bool = False
    path: Optional[str] = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class DatasetClientConfig(ClientConfig):
    """A client of the dataset scenario: what it takes for a sample, beside what every client says."""

    samples: str = "objects"
    decoded: bool = False


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
class DatasetConfig(ScenarioConfig):
    """The dataset scenario. Every key is explained in ``conf/dataset.yaml``."""

    scenario: str = "dataset"
    workload: WorkloadConfig = field(default_factory=WorkloadConfig)
    client: DatasetClientConfig = field(default_factory=DatasetClientConfig)
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    dataloader: DataloaderConfig = field(default_factory=DataloaderConfig)
    epochs: Any = "auto"
    warmup_samples: int = 32
    verify_share: float = 0.125
    clear_kernel_cache: bool = False
    seed: int = 0
    device: str = "auto"


RULES: Final[Mapping[str, Rule]] = {
    "epochs": (
        lambda value: value == "auto" or whole(1, MAX_EPOCHS)[0](value),
        f"auto, or a whole number from 1 to {MAX_EPOCHS}",
    ),
    "warmup_samples": whole(0, 10**9),
    "verify_share": (lambda value: 0 < value <= 1, "a number above 0, up to 1"),
    "seed": whole(0, 2**32 - 1),
    "device": one_of(DEVICES),
    **WORKLOAD_RULES,
    "data.name": PLAIN_NAME,
    "data.num_samples": optional(parsed(parse_count, ""), "a whole number such as 2000 or 100k"),
    "data.sample_size": optional(parsed(parse_size, ""), "a size such as 100KiB or 1MiB"),
    "data.max_samples": optional(parsed(parse_count, ""), "null or a whole number such as 2000 or 100k"),
    "data.prefix": prefix,
    "data.shard_size": optional(parsed(parse_size, ""), "null or a size such as 64MiB"),
    "data.samples_per_shard": optional(parsed(parse_count, ""), "null or a whole number such as 500 or 1k"),
    "data.num_classes": parsed(parse_count, ""),
    "client.samples": one_of(SAMPLES),
    "data.resolution": optional(parsed(parse_resolution, ""), "null or WIDTHxHEIGHT in pixels, such as 256x256"),
    "model.name": PLAIN_NAME,
    "model._target_": DOTTED_PATH,
    "dataloader.num_workers": whole(0, 1024),
    "dataloader.batch_size": whole(1, 1_000_000),
    "dataloader.prefetch_factor": whole(1, 1024),
    "dataloader.start_method": one_of(START_METHODS),
}
"""The values of the scenario's own keys."""
