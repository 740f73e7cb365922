"""Reading distributed checkpoints: all ranges of a rank at once, into the tensors' own memory."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint._extension import ExtensionRegistry
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future

from torchbucket.config import StoreConfig
from torchbucket.dcp.batches import read_all
from torchbucket.dcp.directory import CheckpointDirectory, name_of_rank
from torchbucket.dcp.files_found import FoundFile, checked_files, read_manifest, read_metadata
from torchbucket.dcp.item_reading import ItemRead, StoredTensor, read_of_bytes, read_of_tensor
from torchbucket.dcp.manifest import MANIFEST_NAME
from torchbucket.dcp.metadata_file import METADATA_NAME, metadata_from
from torchbucket.dcp.ranks import Ranks
from torchbucket.dcp.sharing import (
    Assignment,
    ItemKey,
    Kept,
    broadcast_all,
    bytes_from_first,
    check_group,
    dealt,
    group_for_sharing,
    key_of,
)
from torchbucket.errors import CheckpointError, NotFoundError, PermissionDeniedError
from torchbucket.public import public_in
from torchbucket.uri import Address

__all__ = ["BucketStorageReader"]


@public_in("torchbucket.dcp")
class BucketStorageReader(StorageReader):
    """Reads a distributed checkpoint from a bucket, for ``torch.distributed.checkpoint.load``.

        dcp.load(state, storage_reader=BucketStorageReader("s3://bucket/run-1/step-100"))

    It reads what ``BucketStorageWriter``, ``FileSystemWriter`` and s3torchconnector's writer have written. Of each file
    only the wanted bytes are fetched, those of all files at the same time, straight into the memory of tensors on the
    CPU that have the stored dtype and are contiguous. Before any tensor is touched, one rank looks whether every file
    is there and as long as it was written, and all ranks read the versions that it saw.

    Args:
        uri: the checkpoint's address. A ``checkpoint_id`` given to ``load`` takes its place.
        config: how to reach the bucket; None means ``StoreConfig()``.
        read_once: read what every rank wants on one of them, dealt out by size, and have the others get it from there:
            for replicas, such as those of DDP, where the network between the ranks is faster than the bucket's. All
            ranks must say the same.
        metadata_once: read the metadata on the first rank, and have the others get it from there. All ranks must say
            the same and load together, as ``load`` has them without ``no_dist``: ``read_metadata`` waits for them.
        process_group: the ranks that load together, where that is not all of them; as given to ``load``.
        weights_only: refuse plain values whose unpickling may run code, which PyTorch's planner would unpickle; False
            only for checkpoints that you trust.
        extension_registry: as of ``FileSystemReader``: what undoes what extensions did to the items.

    Raises:
        ConfigError: a wrong address or setting.
    """

    def __init__(
        self,
        uri: Address,
        *,
        config: StoreConfig | None = None,
        read_once: bool = False,
        metadata_once: bool = False,
        process_group: dist.ProcessGroup | None = None,
        weights_only: bool = True,
        extension_registry: ExtensionRegistry | None = None,
    ) -> None:
        super().__init__()
        self._config = config
        self._directory = CheckpointDirectory.at(uri, config)
        self._read_once = read_once
        self._metadata_once = metadata_once
        self._process_group = process_group
        self._weights_only = weights_only
        self._registry = ExtensionRegistry() if extension_registry is None else extension_registry
        self._load_id = str(uuid.uuid4())
        self._metadata: Metadata | None = None
        self._no_metadata: Exception | None = None
        self._rank: int | None = None
        self._use_collectives = True
        self._stored: dict[str, dict[Any, StoredTensor]] = {}

    @property
    def checkpoint_id(self) -> str:
        """The checkpoint's address."""
        return self._directory.uri

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether this is an address of a directory in a bucket."""
        return CheckpointDirectory.is_at(checkpoint_id)

    def reset(self, checkpoint_id: Any = None) -> None:
        """Begin another load, from another address if one is given."""
        if checkpoint_id:
            self._directory = CheckpointDirectory.at(checkpoint_id, self._config)
        self._load_id = str(uuid.uuid4())
        self._metadata = None
        self._no_metadata = None
        self._stored = {}

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Read what the checkpoint consists of.

        Args:
            args: none.
            kwargs: ``rank``: of which rank, in a checkpoint whose ranks were each by themselves.

        Raises:
            NotFoundError: there is no complete checkpoint.
            CheckpointError: the file is damaged, or names what may run code; with ``metadata_once``, or the first rank
                could not read it.
            StoreError: it could not be read.
        """
        del args
        rank = kwargs.get("rank")
        if rank is not None and self._no_metadata is not None:
            # PyTorch asks for the rank's own whatever the reason was, and with that each rank goes on by itself, also
            # where the others have found what all have together and wait for it.
            raise self._no_metadata
        try:
            metadata = self._read_metadata(rank)
        except Exception as error:
            if rank is None and not self._may_be_each_rank_s(error):
                self._no_metadata = error
            raise
        if metadata.storage_meta is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self._load_id
        return metadata

    def _read_metadata(self, rank: int | None) -> Metadata:
        group = self._group_for_metadata() if rank is None else None
        if group is None:
            return read_metadata(self._directory, name_of_rank(METADATA_NAME, rank))
        store, key = self._directory.store, self._directory.key(METADATA_NAME)
        content = bytes_from_first(group, lambda: store.read(key).data, "could not read the metadata")
        return metadata_from(content, self._directory.file_uri(METADATA_NAME))

    def _group_for_metadata(self) -> dist.ProcessGroup | None:
        """The ranks that read the metadata together; None where each does by itself."""
        if not self._metadata_once or not dist.is_initialized():
            return None
        return group_for_sharing(self._process_group)

    def _may_be_each_rank_s(self, error: Exception) -> bool:
        """Whether there may be metadata of each rank's own where that of all could not be read.

        Of what is not there S3 says to those who may not list that it may not be read.
        """
        return isinstance(error, NotFoundError | PermissionDeniedError)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Learn the metadata and which rank this is."""
        del is_coordinator, args
        if metadata.storage_data is None:
            raise CheckpointError(
                f"{self.checkpoint_id}: the metadata does not tell where anything is stored", uri=self.checkpoint_id
            )
        self._metadata = metadata
        self._rank = kwargs.get("rank")
        self._use_collectives = kwargs.get("use_collectives", True)

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Where each rank has metadata of its own, look for the files that it names."""
        return plan if self._use_collectives else self._assigned([plan])[0]

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Look for the files, and tell every rank which versions to read."""
        return self._assigned(plans) if self._use_collectives else plans

    def _assigned(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        ends: dict[str, int] = {}
        for plan in plans:
            for item in plan.items:
                place = self._place(item)
                ends[place.relative_path] = max(ends.get(place.relative_path, 0), place.offset + place.length)
        metadata = self._known_metadata()
        manifest = read_manifest(
            self._directory, name_of_rank(MANIFEST_NAME, None if self._use_collectives else self._rank)
        )
        if manifest is not None and manifest.save_id != getattr(metadata.storage_meta, "save_id", None):
            manifest = None  # of an earlier save, which another writer has replaced
        files = checked_files(self._directory, ends, manifest) if ends else {}
        sums = {} if manifest is None else {name: record.sums() for name, record in manifest.files.items()}
        shared = dealt(plans, self._place) if self._read_once and self._use_collectives else {}
        if shared:
            check_group(self._process_group, len(plans))
        return [dataclasses.replace(plan, storage_data=self._assignment(plan, files, sums, shared)) for plan in plans]

    def _assignment(
        self,
        plan: LoadPlan,
        files: Mapping[str, FoundFile],
        sums: Mapping[str, Mapping[int, tuple[int, str]]],
        shared: Mapping[ItemKey, int],
    ) -> Assignment:
        places = [self._place(item) for item in plan.items]
        return Assignment(
            files={place.relative_path: files[place.relative_path] for place in places},
            sums={
                (place.relative_path, place.offset): known
                for place in places
                if (known := sums.get(place.relative_path, {}).get(place.offset)) is not None
            },
            shared=shared,
        )

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Fetch what this rank wants."""
        assignment = plan.storage_data if isinstance(plan.storage_data, Assignment) else Assignment(files={})
        if assignment.shared:
            # Only now are all ranks sure to ask for a group, and at the same time.
            self._read_shared(group_for_sharing(self._process_group), plan, planner, assignment)
        else:
            self._read(plan.items, planner, assignment)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _read_shared(
        self, group: dist.ProcessGroup, plan: LoadPlan, planner: LoadPlanner, assignment: Assignment
    ) -> None:
        own, shared = dist.get_rank(group), assignment.shared
        items: dict[ItemKey, list[ReadItem]] = {}
        for item in plan.items:
            items.setdefault(key_of(item), []).append(item)
        kept = Kept(self.checkpoint_id, planner, lambda item: self._stored_tensor(item.storage_index))

        def read_own() -> None:
            kept.check_shapes([item for key in shared for item in items[key]])
            self._read([items[key][0] for key, rank in shared.items() if rank == own], kept, assignment)
            self._read([item for item in plan.items if key_of(item) not in shared], planner, assignment)

        Ranks(group).all_do(read_own, "could not read what it was to read for all")
        broadcast_all(group, shared, items, kept, lambda item: self._place(item).length)

    def _read(self, items: Sequence[ReadItem], planner: LoadPlanner, assignment: Assignment) -> None:
        in_order = sorted(items, key=lambda item: (self._place(item).relative_path, self._place(item).offset))
        read_all(self._directory, [self._read_of(item, planner) for item in in_order], assignment)

    def _read_of(self, item: ReadItem, planner: LoadPlanner) -> ItemRead:
        place = self._place(item)
        uri = self._directory.file_uri(place.relative_path)
        if item.type == LoadItemType.BYTE_IO:
            return read_of_bytes(uri, item, place, planner, self._registry, weights_only=self._weights_only)
        return read_of_tensor(uri, item, place, self._stored_tensor(item.storage_index), planner, self._registry)

    def _place(self, item: ReadItem) -> _StorageInfo:
        storage_data = self._known_metadata().storage_data
        place = storage_data.get(item.storage_index)
        if not isinstance(place, _StorageInfo):
            raise CheckpointError(
                f"{self.checkpoint_id}: the metadata does not tell where {item.storage_index.fqn!r} is stored",
                uri=self.checkpoint_id,
            )
        return place

    def _stored_tensor(self, index: MetadataIndex) -> StoredTensor | None:
        pieces = self._stored.get(index.fqn)
        if pieces is None:
            pieces = self._stored[index.fqn] = {}
            entry = self._known_metadata().state_dict_metadata.get(index.fqn)
            if isinstance(entry, TensorStorageMetadata):
                for chunk in entry.chunks:
                    stored = StoredTensor(entry.properties.dtype, tuple(chunk.sizes))
                    pieces[tuple(chunk.offsets)] = stored
                    if len(entry.chunks) == 1:
                        pieces[None] = stored
        return pieces.get(None if index.offset is None else tuple(index.offset))

    def _known_metadata(self) -> Metadata:
        if self._metadata is None:
            raise RuntimeError("set_up_storage_reader comes first")
        return self._metadata
