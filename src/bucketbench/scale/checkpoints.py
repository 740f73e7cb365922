"""A save and a load of a distributed checkpoint, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bucketbench.checkpointing.placement import Placement
from bucketbench.checkpointing.settings import CheckpointingSettings
from bucketbench.clients.expected.coordination import (
    METADATA_BYTES_PER_ITEM,
    PLANNED_BYTES_PER_ITEM,
    WRITTEN_BYTES_PER_ITEM,
    CoordinationSizes,
    coordination_sizes,
)
from bucketbench.clients.expected.placement import AlikeRanks, File, PlacedState
from bucketbench.clients.expected.transfers import Requests, Transfers, store_settings
from bucketbench.configuration.settings import JobSettings
from bucketbench.scale.settings import ScaleSettings
from bucketbench.scale.steps import Operation, Step

__all__ = ["CheckpointModel"]

_OWN_OPTIONS: Final = ("thread_count", "read_once", "metadata_once", "async_checkpointer")
# What a service calls a version, of which only the length matters: an ETag of an upload in parts, a generation.
_VERSIONS: Final = {"s3": f'"{32 * "0"}-64"', "gs": 16 * "1"}
_PLACEMENTS: Final = {
    "dcp_simulated": Placement.DEALT,
    "dcp_ddp": Placement.REPLICATED,
    "dcp_fsdp": Placement.SHARDED,
}


class CheckpointModel:
    """The operations of a scenario of distributed checkpoints, of any number of ranks.

    Args:
        settings: of the scenario.
    """

    clients: Final = dict.fromkeys(_PLACEMENTS, ("bucketbench.clients.dcp.torchbucket.Torchbucket",))

    def __init__(self, settings: JobSettings, scale: ScaleSettings) -> None:
        del scale  # nothing of it changes what is asked for
        assert isinstance(settings, CheckpointingSettings)
        options = settings.client.options
        scheme = str(settings.config["target"]["scheme"])
        self._transfers = Transfers(config=store_settings(options, known=_OWN_OPTIONS), scheme=scheme)
        self._in_flight = self._transfers.config.concurrency
        self._thread_count = int(options.get("thread_count", 1))
        self._read_once = bool(options.get("read_once", False))
        self._metadata_once = bool(options.get("metadata_once", False))
        self._in_background = options.get("async_checkpointer") is not None
        self.placement: Final = _PLACEMENTS[settings.scenario]
        """Which rank has what."""
        self._shapes = settings.state.shapes
        self._address = f"{scheme}://{settings.config['target']['bucket']}/{settings.prefix}bucketbench-step-0.pt"

    def operations(self, world_size: int) -> list[Operation]:
        """The save and the load."""
        state = self.state(world_size)
        sizes = coordination_sizes(state, self._address, _VERSIONS[self._transfers.scheme])
        return [self._save(state, sizes), self._load(state, sizes)]

    def state(self, world_size: int) -> PlacedState:
        """What is saved, as so many ranks have it."""
        return PlacedState(self.placement, self._shapes, world_size, thread_count=self._thread_count)

    def _save(self, state: PlacedState, sizes: CoordinationSizes) -> Operation:
        transfers = self._transfers
        alike = state.alike
        files = _each(alike, lambda file: transfers.write(file.size_bytes))
        begin = transfers.write(sizes.empty_manifest_bytes)
        for _ in (".metadata", "that of a rank that was by itself"):
            begin.update(transfers.describe_missing())
        commit = transfers.write(sizes.manifest_bytes) + transfers.write(sizes.metadata_bytes, on_condition=True)
        stored_bytes = state.stored_bytes + sizes.manifest_bytes + sizes.metadata_bytes
        return Operation(
            name="save",
            steps=(
                Step.of_each("beginning it", begin, sent_bytes=sizes.empty_manifest_bytes, in_flight=1),
                Step(
                    name="writing the files",
                    requests=files.total,
                    sent_bytes=state.stored_bytes,
                    processes=sum(ranks.count for ranks in alike if ranks.files),
                    most_requests=files.most,
                    most_bytes=max(ranks.stored_bytes for ranks in alike),
                    in_flight=self._in_flight,
                    is_spread=True,
                ),
                Step.of_each(
                    "committing it",
                    commit,
                    sent_bytes=sizes.manifest_bytes + sizes.metadata_bytes,
                    in_flight=self._in_flight,
                ),
            ),
            memory={
                "copy of a rank": state.held_bytes if self._in_background else 0,
                "coordinator": state.planned_count * PLANNED_BYTES_PER_ITEM + state.item_count * WRITTEN_BYTES_PER_ITEM,
            },
            counts={"files": sum(ranks.count * len(ranks.files) for ranks in alike), "items": state.item_count},
            sizes={"`.metadata`": sizes.metadata_bytes, "manifest": sizes.manifest_bytes},
            stored_bytes=stored_bytes,
        )

    def _load(self, state: PlacedState, sizes: CoordinationSizes) -> Operation:
        transfers, ranks = self._transfers, state.world_size
        metadata = transfers.read_unknown(sizes.metadata_bytes)
        files = sum(alike.count * len(alike.files) for alike in state.alike)
        look = transfers.read_unknown(sizes.manifest_bytes) + transfers.list_pages(files + 2)
        return Operation(
            name="load",
            steps=(
                Step.of_each(
                    "reading the metadata",
                    metadata,
                    processes=1 if self._metadata_once else ranks,
                    received_bytes=sizes.metadata_bytes,
                    in_flight=self._in_flight,
                ),
                Step.of_each("looking at the files", look, received_bytes=sizes.manifest_bytes, in_flight=1),
                self._read(state),
            ),
            memory={"metadata of a rank": state.item_count * METADATA_BYTES_PER_ITEM},
        )

    def _read(self, state: PlacedState) -> Step:
        """What ranks read of the files: their own pieces, of a replica all of it, or a share of that."""
        if state.placement is not Placement.REPLICATED:
            own = _each(state.alike, self._whole)
            return self._reading(
                state.world_size,
                requests=own.total,
                most_requests=own.most,
                received_bytes=sum(ranks.count * _read_bytes(ranks) for ranks in state.alike),
                most_bytes=max(map(_read_bytes, state.alike)),
            )
        if self._read_once and state.world_size > 1:
            return self._read_shares(state)
        return Step.of_each(
            "reading the files",
            _each(state.alike, self._whole).total,
            processes=state.world_size,
            received_bytes=sum(ranks.count * _read_bytes(ranks) for ranks in state.alike),
            in_flight=self._in_flight,
            is_spread=True,
        )

    def _read_shares(self, state: PlacedState) -> Step:
        """What one rank reads for all, and hands on: of a file all that this rank reads at once."""
        found: list[tuple[Requests, int]] = []
        for files in state.read_once().values():
            requests, size_bytes = Requests(), 0
            for file, names in files:
                lengths = file.stretches(names)
                is_whole = len(names) == len(file.items)
                requests.update(self._whole(file) if is_whole else self._transfers.ranges(lengths))
                size_bytes += sum(lengths)
            found.append((requests, size_bytes))
        return self._reading(
            len(found),
            requests=sum((requests for requests, _ in found), Requests()),
            most_requests=max(requests.total() for requests, _ in found),
            received_bytes=sum(size_bytes for _, size_bytes in found),
            most_bytes=max(size_bytes for _, size_bytes in found),
        )

    def _reading(
        self,
        processes: int,
        *,
        requests: Mapping[str, int],
        most_requests: int,
        received_bytes: int,
        most_bytes: int,
    ) -> Step:
        return Step(
            name="reading the files",
            requests=requests,
            received_bytes=received_bytes,
            processes=processes,
            most_requests=most_requests,
            most_bytes=most_bytes,
            in_flight=self._in_flight,
            is_spread=True,
        )

    def _whole(self, file: File) -> Requests:
        """What reading all items of a file takes; its checksum is asked for where each byte of it is read."""
        lengths = file.stretches([item.name for item in file.items if item.payload_bytes])
        requests = self._transfers.ranges(lengths)
        return requests + self._transfers.checksum() if lengths and file.read_as_whole else requests


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """What ranks ask for.

    Args:
        total: all of them.
        most: the one that asks for most.
    """

    total: Mapping[str, int]
    most: int


def _each(alike: Sequence[AlikeRanks], requests_of: Callable[[File], Requests]) -> _Asked:
    """What ranks ask for, each for its own files."""
    total, most = Requests(), 0
    for ranks in alike:
        own = Requests()
        for file in ranks.files:
            own.update(requests_of(file))
        most = max(most, own.total())
        for name, count in own.items():
            total[name] += count * ranks.count
    return _Asked(total=total, most=most)


def _read_bytes(ranks: AlikeRanks) -> int:
    return sum(sum(file.stretches([item.name for item in file.items if item.payload_bytes])) for file in ranks.files)
