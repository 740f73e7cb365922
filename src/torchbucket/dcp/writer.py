"""Writing distributed checkpoints: what PyTorch's own writer writes, from where the tensors lie."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from torch.distributed.checkpoint._extension import StreamTransformExtension
from torch.distributed.checkpoint.filesystem import CURRENT_DCP_VERSION, _StoragePrefix
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from torchbucket.checkpoint.location import key_below
from torchbucket.checkpoint.read_back import SUM
from torchbucket.config import StoreConfig
from torchbucket.dcp.directory import CheckpointDirectory, name_of_rank
from torchbucket.dcp.file_writing import WrittenItem, write_file
from torchbucket.dcp.manifest import MANIFEST_NAME, FileRecord, Manifest
from torchbucket.dcp.marker import end_manifest, publish, take_away
from torchbucket.dcp.metadata_file import METADATA_NAME, metadata_bytes
from torchbucket.dcp.prefixes import FilePrefixes
from torchbucket.errors import ConfigError
from torchbucket.public import public_in
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.starting import start_threads
from torchbucket.store.thread_pool import ThreadPool
from torchbucket.uri import Address

__all__ = ["BucketStorageWriter"]

_SUFFIX: Final = ".distcp"
_LARGEST_THREAD_COUNT: Final = 256


@public_in("torchbucket.dcp")
class BucketStorageWriter(StorageWriter):
    """Writes a distributed checkpoint to a bucket, for ``torch.distributed.checkpoint``'s ``save`` and ``async_save``.

        dcp.save(state, storage_writer=BucketStorageWriter("s3://bucket/run-1/step-100"))

    The files are those of ``FileSystemWriter``, so that either side reads the other's. Tensors on the CPU are sent
    from their own memory. The checkpoint is there when ``.metadata`` is, which is written last, whole, on the condition
    that nobody else has written it; where one is there already, it is taken away before any file is written, so that
    no mixture can be loaded. Nothing is copied or renamed, and only saving over a checkpoint needs the right to delete.

    Args:
        uri: the checkpoint's address, a directory of its own. A ``checkpoint_id`` given to ``save`` takes its place.
        config: how to reach the bucket; None means ``StoreConfig()``.
        thread_count: how many files each rank writes at the same time. One fills the connections already, since its
            parts are sent at once.
        single_file_per_rank: False writes a file for each tensor.
        overwrite: False refuses to save where a checkpoint is.
        prefixes: what the names of a rank's files begin with, such as ``BinaryPrefixes()``.
        extensions: as of ``FileSystemWriter``: what transforms each item on its way.
        beside: the content of further files, by their names below the checkpoint, which the coordinator writes: the
            checkpoint is not there before they are. Other ranks may leave them out.

    Raises:
        ConfigError: a wrong address or setting.
    """

    def __init__(
        self,
        uri: Address,
        *,
        config: StoreConfig | None = None,
        thread_count: int = 1,
        single_file_per_rank: bool = True,
        overwrite: bool = True,
        prefixes: FilePrefixes | None = None,
        extensions: Sequence[StreamTransformExtension] = (),
        beside: Mapping[str, bytes] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(thread_count, int) or not 1 <= thread_count <= _LARGEST_THREAD_COUNT:
            raise ConfigError(f"thread_count: 1 to {_LARGEST_THREAD_COUNT} files at a time; got {thread_count!r}")
        self._config = config
        self._directory = CheckpointDirectory.at(uri, config)
        self._thread_count = thread_count
        self._single_file_per_rank = single_file_per_rank
        self._overwrite = overwrite
        self._prefixes = prefixes
        self._extensions = list(extensions)
        self._beside = _checked_names(self._directory, beside or {})
        self._beside_written: dict[str, FileRecord] = {}
        self._save_id = str(uuid.uuid4())
        self._begun: ObjectInfo | None = None
        self._is_coordinator = False
        self._rank: int | None = None
        self._use_collectives = True
        start_threads(self._directory.store)  # for a save in the background, which the program may not outlast

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
        if checkpoint_id:
            self._directory = CheckpointDirectory.at(checkpoint_id, self._config)
        self._save_id = str(uuid.uuid4())

    def storage_meta(self) -> StorageMeta:
        """What tells this save from others."""
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self._save_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Learn which rank this is."""
        del args
        self._is_coordinator = is_coordinator
        self._rank = kwargs.get("rank")
        self._use_collectives = kwargs.get("use_collectives", True)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Where each rank is by itself, make room for its metadata."""
        if self._use_collectives or self._rank is None:
            return plan
        self._begin()
        return dataclasses.replace(plan, storage_data=_StoragePrefix(self._prefix(self._rank, self._rank + 1)))

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Make room for the metadata, before any rank writes, and say what each rank's files are called."""
        if self._use_collectives or self._rank is None:
            self._begin()
        return [
            plan
            if isinstance(plan.storage_data, _StoragePrefix)
            else dataclasses.replace(plan, storage_data=_StoragePrefix(self._prefix(rank, len(plans))))
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's files."""
        prefix = plan.storage_data.prefix
        if self._single_file_per_rank:
            groups = _dealt(plan.items, self._thread_count)
        else:
            groups = [[item] for item in plan.items]
        files = [(f"{prefix}{number}{_SUFFIX}", items) for number, items in enumerate(groups) if items]

        def write(file: tuple[str, list[WriteItem]]) -> list[WrittenItem]:
            name, items = file
            return write_file(self._directory, name, items, planner, self._extensions)

        written: list[WriteResult] = []
        # One thread more: what lies beside is small, and must not be waited for.
        threads = self._thread_count + bool(self._beside)
        with ThreadPool(threads, thread_name_prefix="torchbucket-dcp") as pool:
            beside = pool.submit(self._write_beside) if self._is_coordinator else None
            under_way = [pool.submit(write, file) for file in files]
            try:
                for one in under_way:
                    written += one.result()
                if beside is not None:
                    self._beside_written = beside.result()
            except BaseException:
                for one in under_way:
                    one.cancel()
                raise
        future: Future[list[WriteResult]] = Future()
        future.set_result(written)
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Publish the checkpoint: the manifest first, then the metadata, which is what makes it one.

        Raises:
            CheckpointError: somebody else has saved to the same address meanwhile.
            StoreError: it could not be written; there is no checkpoint then.
        """
        storage_data: dict[MetadataIndex, Any] = {}
        files = dict(self._beside_written)
        for result in (one for of_rank in results for one in of_rank):
            storage_data[result.index] = result.storage_data
            if isinstance(result, WrittenItem):
                files[result.storage_data.relative_path] = result.file
        metadata.version = CURRENT_DCP_VERSION
        metadata.storage_data = storage_data
        metadata.storage_meta = self.storage_meta()
        content = metadata_bytes(metadata)
        assert self._begun is not None, "the plan comes first"
        marker = self._own(METADATA_NAME)
        manifest = Manifest(save_id=self._save_id, files=files)
        end_manifest(self._directory, self._own(MANIFEST_NAME), manifest, self._begun, marker=marker)
        publish(self._directory, marker, content)

    def _write_beside(self) -> dict[str, FileRecord]:
        store, written = self._directory.store, {}
        for name, content in self._beside.items():
            info = store.write(self._directory.key(name), content)
            written[name] = _record_of(content, info.version)
        return written

    def _own(self, name: str) -> str:
        return name_of_rank(name, None if self._use_collectives else self._rank)

    def _prefix(self, rank: int, world_size: int) -> str:
        directory = self._prefixes(rank, world_size).strip("/") if self._prefixes is not None else ""
        name = f"{directory}/__{rank}_" if directory else f"__{rank}_"
        self._directory.key(name)
        return name

    def _begin(self) -> None:
        """Take away what makes an earlier save a checkpoint, and leave a sign of whose the files are."""
        self._take_away(self._own(METADATA_NAME))
        if self._own(METADATA_NAME) != METADATA_NAME:
            self._take_away(METADATA_NAME)
        elif self._take_away(f"__0{METADATA_NAME}"):  # of ranks that were each by themselves
            for rank in itertools.count(1):
                if not self._take_away(f"__{rank}{METADATA_NAME}"):
                    break
        self._begun = self._write_first_manifest()

    def _write_first_manifest(self) -> ObjectInfo:
        """The manifest of a save that has written nothing yet, but for what cannot be known by its name to be ours."""
        beside = {name: _record_of(content, None) for name, content in self._beside.items()}
        manifest = Manifest(save_id=self._save_id, files=beside if self._is_coordinator else {})
        return self._directory.store.write(self._directory.key(self._own(MANIFEST_NAME)), manifest.content())

    def _take_away(self, name: str) -> bool:
        """Remove an earlier save's metadata, before any file is written; return whether there was any."""
        return take_away(self._directory, name, overwrite=self._overwrite, look_at_ours=self._look_at_ours)

    def _look_at_ours(self) -> None:
        self._write_first_manifest()
        self._directory.store.head(self._directory.key(self._own(MANIFEST_NAME)))


def _checked_names(directory: CheckpointDirectory, beside: Mapping[str, bytes]) -> dict[str, bytes]:
    """What lies beside, whose names lead to no other directory and are not those of the checkpoint's own files."""
    for name in beside:
        key_below(directory.location, name)
        if name.endswith((METADATA_NAME, MANIFEST_NAME, _SUFFIX)):
            raise ConfigError(f"beside: {name!r} is the name of a file of the checkpoint itself; give it another one")
    return dict(beside)


def _record_of(content: bytes, version: str | None) -> FileRecord:
    value = SUM.of([content]).text
    return FileRecord(size_bytes=len(content), crc64nvme=value, version=version, items=((len(content), value),))


def _dealt(items: list[WriteItem], count: int) -> list[list[WriteItem]]:
    """The items in so many groups of about the same size."""
    if count == 1:
        return [items]
    groups: list[list[WriteItem]] = [[] for _ in range(count)]
    sizes = [(0, group) for group in range(count)]
    for item in sorted(items, key=_size_bytes, reverse=True):
        size, group = heapq.heappop(sizes)
        groups[group].append(item)
        heapq.heappush(sizes, (size + _size_bytes(item), group))
    return groups


def _size_bytes(item: WriteItem) -> int:
    if item.type == WriteItemType.BYTE_IO or item.tensor_data is None:
        return item.bytes_io_data.nbytes if item.bytes_io_data is not None else 0
    return item.tensor_data.size.numel() * item.tensor_data.properties.dtype.itemsize
