"""One job of the dataset scenario as the measured process receives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from bucketbench.clients.protocol import Target
from bucketbench.job.description import Component, Job, component

__all__ = ["DatasetJob", "LoaderSettings", "LocalCopy"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderSettings:
    """The DataLoader's arguments; ``start_method`` may be ``auto`` (see `bucketbench.scenarios.dataset.loading`)."""

    num_workers: int
    batch_size: int
    prefetch_factor: int
    start_method: str
    persistent_workers: bool
    pin_memory: bool
    shuffle: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalCopy:
    """Where a client that reads local files finds the same samples, and what to make there if they are not.

    Args:
        directory: absolute path of the directory with the samples.
        spec: fields of the ``DatasetSpec``.
    """

    directory: str
    spec: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetJob(Job):
    """A client that reads a data set in a training loop.

    Args:
        model: what is done with the samples.
        samples_file: absolute path of the JSON lines that list every sample: see
            `bucketbench.scenarios.dataset.expected_samples`.
        loader: the DataLoader's settings.
        epochs: number of measured passes over the data, None for as many as ``min_measured_s`` takes together.
        warmup_samples: length of the pass before them, which is not measured; 0 for none.
        seed: seed of the order of samples, and of a model's weights.
        device: ``auto``, ``cpu`` or ``cuda``.
        local_copy: for clients that read local files; None where the samples were not made here.
        max_samples: how many samples an epoch reads; None for all.
        samples: what the client takes for a sample: ``objects``, or the ``members`` of tar shards that share a key.
        decoded: whether it delivers samples that it decoded itself.
        clear_kernel_cache: whether the kernel's cache of files is dropped before each epoch.
        verify_share: the share of the samples that each measured epoch compares whole.
    """

    model: Component
    samples_file: str
    loader: LoaderSettings
    epochs: int | None
    warmup_samples: int
    seed: int
    device: str
    local_copy: LocalCopy | None
    max_samples: int | None = None
    samples: str = "objects"
    decoded: bool = False
    clear_kernel_cache: bool = False
    verify_share: float = 1.0

    @property
    def requires(self) -> tuple[str, ...]:
        """Those of torch, the client and the model."""
        return ("torch", *self.client.requires, *self.model.requires)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """The job with the given fields, nested values as plain mappings."""
        nested = {
            "client": component(fields["client"]),
            "model": component(fields["model"]),
            "target": Target(**fields["target"]),
            "loader": LoaderSettings(**fields["loader"]),
            "local_copy": None if fields["local_copy"] is None else LocalCopy(**fields["local_copy"]),
        }
        return cls(**{**fields, **nested})
