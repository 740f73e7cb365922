"""An epoch of a data set: an object for each sample, or tar shards of many."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import Final

from bucketbench.clients.expected.transfers import Transfers, store_settings
from bucketbench.configuration.settings import JobSettings
from bucketbench.datagen.plan import planned_objects, planned_size_bytes
from bucketbench.datagen.spec import DatasetSpec
from bucketbench.errors import ConfigurationError
from bucketbench.scale.settings import ScaleSettings
from bucketbench.scale.steps import Operation, Step
from bucketbench.scenarios.dataset.settings import DatasetSettings
from bucketbench.units import format_bytes

__all__ = ["EpochModel"]

_OWN_OPTIONS: Final = ("compose",)
_LOOKED_AT: Final = 10_000
"""Samples whose sizes are drawn; the others are taken to be like them."""


class EpochModel:
    """The epochs of the dataset scenario, with any number of ranks.

    Args:
        settings: of the scenario.
        scale: the size of the shards that it is compared with.
    """

    clients: Final = {
        "dataset": (
            "bucketbench.clients.torchbucket.TorchbucketMap",
            "bucketbench.clients.torchbucket.TorchbucketIterable",
        )
    }

    def __init__(self, settings: JobSettings, scale: ScaleSettings) -> None:
        assert isinstance(settings, DatasetSettings)
        options = settings.client.options
        if options.get("compose"):
            raise ConfigurationError(
                "client.options.compose=true: what the server joins is not simulated; choose client=torchbucket-map or "
                "client=torchbucket-iterable"
            )
        scheme = str(settings.config["target"]["scheme"])
        self._transfers = Transfers(config=store_settings(options, known=_OWN_OPTIONS), scheme=scheme)
        self._spec = settings.dataset_spec
        self._workers = max(1, settings.loader.num_workers)
        self._batch_size = settings.loader.batch_size
        self._batch_s = float(settings.model.options.get("compute_time_s", 0.0))
        self._shard_size_bytes = scale.shard_size_bytes
        self._objects = self._of_objects()
        self._shards = self._of_shards()

    def operations(self, world_size: int) -> list[Operation]:
        """An epoch of objects, and one of shards."""
        return [
            self._epoch("epoch of objects", *self._objects, world_size=world_size),
            self._epoch(
                f"epoch of tar shards of {format_bytes(self._shard_size_bytes)}", *self._shards, world_size=world_size
            ),
        ]

    def _of_objects(self) -> tuple[Counter[str], float, int]:
        """The requests of all samples, their bytes, and the mean size of an object."""
        looked_at = min(self._spec.num_samples, _LOOKED_AT)
        if self._spec.size_distribution == "constant":
            looked_at = 1
        requests: Counter[str] = Counter()
        size_bytes = 0
        for index in range(looked_at):
            sample_bytes = planned_size_bytes(self._spec, index)
            requests.update(self._transfers.read(sample_bytes))
            size_bytes += sample_bytes
        return self._of_all(requests, size_bytes, looked_at, mean_bytes=size_bytes // looked_at)

    def _of_shards(self) -> tuple[Counter[str], float, int]:
        """Likewise of shards."""
        looked_at = min(self._spec.num_samples, _LOOKED_AT)
        spec: DatasetSpec = replace(self._spec, shard_size_bytes=self._shard_size_bytes, num_samples=looked_at)
        shards = list(islice(planned_objects(spec), looked_at))
        if looked_at < self._spec.num_samples and len(shards) > 1:
            shards = shards[:-1]  # which is full only by chance
        requests: Counter[str] = Counter()
        for shard in shards:
            requests.update(self._transfers.read_shard(shard.size_bytes))
        size_bytes = sum(shard.size_bytes for shard in shards)
        samples = sum(len(shard.samples) for shard in shards)
        return self._of_all(requests, size_bytes, samples, mean_bytes=size_bytes // len(shards))

    def _of_all(
        self, requests: Counter[str], size_bytes: int, looked_at: int, *, mean_bytes: int
    ) -> tuple[Counter[str], float, int]:
        count = self._spec.num_samples
        total = Counter({name: -(-number * count // looked_at) for name, number in requests.items()})
        return total, size_bytes * count / looked_at, mean_bytes

    def _epoch(
        self, name: str, requests: Counter[str], size_bytes: float, mean_bytes: int, *, world_size: int
    ) -> Operation:
        # A request of a shard is a part of it.
        asked_bytes = min(mean_bytes, self._transfers.config.part_size_bytes)
        in_flight = self._workers * self._transfers.objects_in_flight(asked_bytes)
        samples = -(-self._spec.num_samples // world_size)
        step = Step(
            name="reading",
            requests=requests,
            received_bytes=size_bytes,
            processes=world_size,
            most_requests=requests.total() / world_size,
            most_bytes=size_bytes / world_size,
            in_flight=in_flight,
            is_spread=True,
            least_s=samples / self._batch_size * self._batch_s,
        )
        budget_bytes = self._transfers.prefetch_bytes
        return Operation(
            name=name,
            steps=(step,),
            memory={"read ahead by a rank": self._workers * budget_bytes},
            stored_bytes=size_bytes,
        )
