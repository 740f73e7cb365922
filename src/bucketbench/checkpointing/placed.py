"""Distributed checkpoints as the loop saves and loads them: what is done with a client's writer and reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, async_save, save

from bucketbench.checkpointing.loop import OwnState
from bucketbench.checkpointing.party import Party
from bucketbench.checkpointing.placement import Placement, whole_tensors
from bucketbench.checkpointing.state import StateSpec
from bucketbench.clients.dcp.protocol import (
    BackgroundSaver,
    BringsSaver,
    CopiesToHosts,
    DistributedStorage,
    ReadsInGroup,
)
from bucketbench.errors import ConfigurationError
from bucketbench.ranks import Ranks

__all__ = ["PlacedCheckpoints", "PlacedCheckpointsInBackground"]


class PlacedCheckpoints:
    """Saves by ``dcp.save``, and loads by ``dcp.load`` into tensors that are there, as a training has them.

    Args:
        storage: of the client.
        ranks: all of the job's.
        spec: of the whole state.
        placement: which rank has what of it.
        savers: the ranks that save.
        loaders: those that load.
        loaded: what this rank loads.
    """

    def __init__(
        self,
        storage: DistributedStorage,
        ranks: Ranks,
        *,
        spec: StateSpec,
        placement: Placement,
        savers: Party,
        loaders: Party,
        loaded: OwnState,
    ) -> None:
        self._storage = storage
        self._ranks = ranks
        self._shapes = spec.shapes
        self._values = spec.values
        self._savers = savers
        self._loaders = loaders
        self._loaded = loaded
        sharded = placement is Placement.SHARDED
        self._save_mesh = savers.mesh() if sharded and savers.is_member else None
        self._load_mesh = self._save_mesh if loaders is savers else None
        if sharded and loaders.is_member and self._load_mesh is None:
            self._load_mesh = loaders.mesh()
        self._into: dict[str, torch.Tensor] = {}
        if isinstance(storage, ReadsInGroup):
            storage.use_group(loaders.group)

    def save(self, state: dict[str, torch.Tensor], key: str) -> None:
        self._save_by(self._storage.writer, state, key)

    def _save_by(self, writer: Callable[[str], Any], state: dict[str, torch.Tensor], key: str) -> None:
        if self._savers.is_member:
            save(
                self._to_save(state),
                storage_writer=writer(key),
                process_group=self._savers.group,
                no_dist=self._savers.is_alone,
            )

    def save_for_loads(self, state: dict[str, torch.Tensor], key: str) -> None:
        """Save what will only be loaded, in whatever way it comes to where the client loads it from."""
        storage = self._storage
        if not isinstance(storage, CopiesToHosts):
            self.save(state, key)
            return
        self._save_by(storage.bucket_writer, state, key)
        self._ranks.wait_for_all()
        storage.copy_here(key)
        self._ranks.wait_for_all()
        if self._ranks.is_first:
            storage.remove_from_bucket(key)

    def make_room(self) -> None:
        self._into = {name: torch.zeros_like(tensor) for name, tensor in self._loaded.tensors.items()}
        self._synchronize()

    def load(self, key: str) -> dict[str, torch.Tensor]:
        into, self._into = self._into, {}
        if not self._loaders.is_member:
            return into
        blanks = {name: [dict.fromkeys(group) for group in groups] for name, groups in self._values.items()}
        whole = whole_tensors(into, self._shapes, self._load_mesh) | blanks
        load(
            whole,
            storage_reader=self._storage.reader(key),
            process_group=self._loaders.group,
            no_dist=self._loaders.is_alone,
        )
        self._synchronize()
        wrong = [name for name, value in self._values.items() if whole[name] != value]
        if wrong:
            raise RuntimeError(f"{wrong[0]} of {key} was loaded with other values than were saved")
        return into

    def is_saved(self, key: str) -> bool:
        if not hasattr(self._storage, "is_saved"):
            raise ConfigurationError(
                f"{type(self._storage).__name__} has no is_saved(name), which tells a job that saves or loads alone "
                "whether a checkpoint is there: add it to the client, or take action=save_and_load"
            )
        return self._storage.is_saved(key)

    def remove(self, key: str) -> None:
        if self._ranks.is_first or isinstance(self._storage, CopiesToHosts):
            self._storage.remove(key)

    def close(self) -> None:
        self._storage.close()

    def _to_save(self, state: dict[str, torch.Tensor]) -> dict[str, Any]:
        self._synchronize()
        return whole_tensors(state, self._shapes, self._save_mesh) | self._values

    def _synchronize(self) -> None:
        """Have a GPU done with what it was told, so that its work falls into the time that it belongs to."""
        if self._savers.device == "cuda":
            torch.cuda.synchronize()


class PlacedCheckpointsInBackground(PlacedCheckpoints):
    """Saves by ``dcp.async_save``, or what the client has instead, with a process group of its own.

    Args:
        kind: by what.
        reuse_stager: whether a state is copied into the same memory each time, by a stager of torch's that stays;
            without effect on a client that has a way of its own.
        arguments: as of :class:`PlacedCheckpoints`.
    """

    def __init__(self, *arguments: Any, kind: AsyncCheckpointerType, reuse_stager: bool, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._kind = kind
        # Made by all ranks, though only those that save use it.
        savers = None if self._savers.is_alone else list(range(self._savers.size))
        self._group = None if savers is None else dist.new_group(savers, backend="gloo")
        storage, saves = self._storage, self._savers.is_member
        # One rank of several that saves alone has no group to give, and all ranks' would be taken.
        has_group = self._group is not None or self._ranks.world_size == 1
        self._saver: BackgroundSaver | None = None
        if isinstance(storage, BringsSaver) and saves and has_group:
            self._saver = storage.saver(process=kind is AsyncCheckpointerType.PROCESS, group=self._group)
        self._stager = self._made_stager() if reuse_stager and self._saver is None else None

    def save_async(self, state: dict[str, torch.Tensor], key: str) -> Any:
        if not self._savers.is_member:
            return _Nothing()
        whole, writer = self._to_save(state), self._storage.writer(key)
        if self._saver is not None:
            return self._saver.save(whole, writer).upload_completion
        saved: Any = async_save(
            whole,
            storage_writer=writer,
            process_group=self._group,
            async_checkpointer_type=self._kind,
            async_stager=self._stager,
            no_dist=self._savers.is_alone,
        )
        return getattr(saved, "upload_completion", saved)

    def close(self) -> None:
        if self._saver is not None:
            self._saver.close()
        if self._stager is not None:
            self._stager.close()
        super().close()

    def _made_stager(self) -> DefaultStager:
        """One that copies before it returns; another process takes the copies from memory that is shared."""
        return DefaultStager(
            StagingOptions(
                use_async_staging=False,
                use_non_blocking_copy=False,
                use_pinned_memory=self._savers.device == "cuda",
                use_shared_memory=self._kind is AsyncCheckpointerType.PROCESS,
            )
        )


class _Nothing:
    """The save of a rank that saves nothing."""

    def result(self) -> None:
        return None
