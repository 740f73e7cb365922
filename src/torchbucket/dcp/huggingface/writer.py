"""Writing distributed checkpoints as safetensors files: whole tensors, or the parts that each rank has."""

from __future__ import annotations

import dataclasses
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from torchbucket.config import StoreConfig
from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.file_writing import WrittenItem
from torchbucket.dcp.huggingface.committing import BegunSave, begin_save
from torchbucket.dcp.huggingface.consolidation import check_thread_count, consolidate_directory
from torchbucket.dcp.huggingface.file_writing import piece_of, write_tensors
from torchbucket.dcp.huggingface.names import SHARDED_NAME, checked_mapping, file_name, numbers_of
from torchbucket.dcp.manifest import FileRecord
from torchbucket.dcp.ranks import Ranks
from torchbucket.errors import CheckpointError, ConfigError
from torchbucket.public import public_in
from torchbucket.safetensors.header import quoted
from torchbucket.store.starting import start_threads
from torchbucket.store.thread_pool import ThreadPool
from torchbucket.uri import Address

__all__ = ["BucketHuggingFaceWriter"]


@dataclasses.dataclass(frozen=True, slots=True)
class _ShardNumbers:
    """What a rank's shards are called: it writes one, and one more for each further part that it has of a tensor, since
    a file has one of each name."""

    first: int
    step: int


@public_in("torchbucket.dcp")
class BucketHuggingFaceWriter(StorageWriter):
    """Writes a distributed checkpoint to a bucket as safetensors files, for ``torch.distributed.checkpoint.save``.

        writer = BucketHuggingFaceWriter(
            "s3://bucket/run-1/step-100", save_distributed=True, enable_consolidation=True
        )
        dcp.save(model.state_dict(), storage_writer=writer)

    Names, layout and options are those of PyTorch's ``HuggingFaceStorageWriter``, so that either side reads the
    other's. The state holds tensors alone. Three ways:

    - as it is, for a state that one rank has as a whole: ``model-00001-of-00001.safetensors`` and an index;
    - ``save_distributed``: each rank writes the parts that it has, ``shard-00001-model-00001-of-00001.safetensors``,
      for ``BucketHuggingFaceReader`` and ``consolidate``;
    - with ``enable_consolidation`` too: the parts go to ``sharded`` below the address, and one rank then makes whole
      tensors and an index of them, within the bucket.

    The checkpoint is there when ``model.safetensors.index.json`` is, or for parts alone when ``.torchbucket.json``
    names files: each is published last, by one conditional request, and taken away before a save over it writes any
    file.

    Args:
        uri: the checkpoint's address, a directory of its own. A ``checkpoint_id`` given to ``save`` takes its place.
        fqn_to_index_mapping: the number of its file for each tensor, from 1; None means one file.
        config: how to reach the bucket; None means ``StoreConfig()``.
        thread_count: how many files each rank writes at the same time.
        save_distributed: whether each rank writes the parts that it has.
        enable_consolidation: whether these are consolidated; see ``torchbucket.dcp.consolidate``, which several ranks
            can do together.
        thread_count_consolidation: how many files are consolidated at the same time.
        overwrite: False refuses to save where a checkpoint is.

    Raises:
        ConfigError: a wrong address or setting.
    """

    def __init__(
        self,
        uri: Address,
        fqn_to_index_mapping: Mapping[str, int] | None = None,
        *,
        config: StoreConfig | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
        overwrite: bool = True,
    ) -> None:
        super().__init__()
        check_thread_count("thread_count", thread_count)
        check_thread_count("thread_count_consolidation", thread_count_consolidation)
        if enable_consolidation and not save_distributed:
            raise ConfigError("enable_consolidation: only of parts is there anything to consolidate; save_distributed")
        self._mapping = checked_mapping(fqn_to_index_mapping)
        self._config = config
        self._thread_count = thread_count
        self._save_distributed = save_distributed
        self._consolidation_threads = thread_count_consolidation if enable_consolidation else None
        self._overwrite = overwrite
        self._place(uri)
        start_threads(self._directory.store)  # for a save in the background, which the program may not outlast

    def _place(self, uri: Address) -> None:
        self._directory = self._data = CheckpointDirectory.at(uri, self._config)
        if self._consolidation_threads is not None:
            self._data = self._directory.below(SHARDED_NAME)
        self._save_id = str(uuid.uuid4())
        self._begun: BegunSave | None = None
        self._begun_data: BegunSave | None = None

    @property
    def checkpoint_id(self) -> str:
        """The checkpoint's address."""
        return self._directory.uri

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether this is an address of a directory in a bucket."""
        return CheckpointDirectory.is_at(checkpoint_id)

    def reset(self, checkpoint_id: Any = None) -> None:
        """Begin another save, to another address if one is given."""
        self._place(checkpoint_id or self._directory.location)

    def storage_meta(self) -> StorageMeta:
        """What tells this save from others."""
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self._save_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Refuse ranks that are each by themselves."""
        del is_coordinator, args
        if not kwargs.get("use_collectives", True):
            raise CheckpointError(
                f"{self.checkpoint_id}: this layout has one index for all ranks, so use_collectives=False does not fit",
                uri=self.checkpoint_id,
            )

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Refuse what is no tensor."""
        values = [item.index.fqn for item in plan.items if item.type == WriteItemType.BYTE_IO]
        if values:
            raise CheckpointError(
                f"{self.checkpoint_id}: safetensors hold tensors alone, and {', '.join(map(quoted, values[:3]))}"
                f"{', …' if len(values) > 3 else ''} {'is' if len(values) == 1 else 'are'} none: save the rest of the "
                "state beside them, by BucketStorageWriter",
                uri=self.checkpoint_id,
            )
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Take an earlier checkpoint away, before any rank writes, and say which shards are whose."""
        numbers_of(self._mapping, {item.index.fqn: None for plan in plans for item in plan.items}, self.checkpoint_id)
        if not self._save_distributed:
            self._check_whole(plans)
        self._begun = begin_save(self._directory, self._save_id, overwrite=self._overwrite)
        self._begun_data = self._begun
        if self._data is not self._directory:
            self._begun_data = begin_save(self._data, self._save_id, overwrite=True)
        return [
            dataclasses.replace(plan, storage_data=_ShardNumbers(rank + 1, len(plans)))
            for rank, plan in enumerate(plans)
        ]

    def _check_whole(self, plans: Sequence[SavePlan]) -> None:
        """Raise unless one rank has all tensors as a whole."""
        advice = "give save_distributed=True, and enable_consolidation=True for whole tensors"
        ranks = [rank for rank, plan in enumerate(plans) if plan.items]
        if len(ranks) > 1:
            raise CheckpointError(
                f"{self.checkpoint_id}: {len(ranks)} ranks have something to write, and would write the same files: "
                f"{advice}",
                uri=self.checkpoint_id,
            )
        for item in (item for plan in plans for item in plan.items):
            piece = piece_of(item)
            assert item.tensor_data is not None
            if tuple(item.tensor_data.chunk.sizes) != piece.shape:
                raise CheckpointError(
                    f"{self.checkpoint_id}: of {quoted(piece.name)} with the shape {list(piece.shape)} this is a part, "
                    f"{list(item.tensor_data.chunk.sizes)}: {advice}",
                    uri=self.checkpoint_id,
                )

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's files."""
        written: list[WriteResult] = []
        files = self._files(plan)

        def write(name: str) -> list[WrittenItem]:
            return write_tensors(self._data, name, files[name], planner, sharded=self._save_distributed)

        with ThreadPool(self._thread_count, thread_name_prefix="torchbucket-dcp") as pool:
            under_way = [pool.submit(write, name) for name in files]
            try:
                for one in under_way:
                    written += one.result()
            except BaseException:
                for one in under_way:
                    one.cancel()
                raise
        future: Future[list[WriteResult]] = Future()
        future.set_result(written)
        return future

    def _files(self, plan: SavePlan) -> dict[str, list[WriteItem]]:
        """What goes into which file."""
        numbers, largest = numbers_of(self._mapping, {item.index.fqn for item in plan.items}, self.checkpoint_id)
        shards: _ShardNumbers = plan.storage_data
        seen: Counter[str] = Counter()
        files: dict[str, list[WriteItem]] = {}
        for item in plan.items:
            name = item.index.fqn
            shard = shards.first + seen[name] * shards.step if self._save_distributed else None
            seen[name] += 1
            files.setdefault(file_name(numbers[name], largest, shard), []).append(item)
        return files

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Publish the checkpoint, and consolidate it before where that was asked for.

        Raises:
            CheckpointError: somebody else has saved to the same address meanwhile; there is nothing to be saved.
            StoreError: it could not be written; there is no checkpoint then.
        """
        del metadata
        assert self._begun is not None, "prepare_global_plan comes first"
        assert self._begun_data is not None
        written = [one for of_rank in results for one in of_rank if isinstance(one, WrittenItem)]
        if not written:
            raise CheckpointError(f"{self.checkpoint_id}: the state has no tensor to save", uri=self.checkpoint_id)
        files: dict[str, FileRecord] = {one.storage_data.relative_path: one.file for one in written}
        if not self._save_distributed:
            self._begun.publish_whole(
                files,
                {one.index.fqn: one.storage_data.relative_path for one in written},
                sum(one.size_in_bytes for one in written),
            )
            return
        self._begun_data.publish_shards(files)
        if self._consolidation_threads is not None:
            consolidate_directory(
                self._data,
                self._directory,
                self._mapping,
                thread_count=self._consolidation_threads,
                overwrite=self._overwrite,
                ranks=Ranks(None),
                begun=self._begun,
            )
