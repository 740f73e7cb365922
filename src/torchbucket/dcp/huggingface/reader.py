"""Reading distributed checkpoints that are safetensors files: whole ones of Hugging Face's, or the parts of ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem

from torchbucket.config import StoreConfig
from torchbucket.dcp.files_found import FoundFile
from torchbucket.dcp.huggingface.boxes import Box
from torchbucket.dcp.huggingface.layout import find_layout
from torchbucket.dcp.huggingface.part_reading import PartRead
from torchbucket.dcp.huggingface.pieces import Pieces, read_pieces
from torchbucket.dcp.item_reading import ItemRead
from torchbucket.dcp.ranks import Ranks
from torchbucket.dcp.reader import BucketStorageReader
from torchbucket.dcp.sharing import Assignment
from torchbucket.errors import CheckpointError
from torchbucket.public import public_in
from torchbucket.uri import Address

__all__ = ["BucketHuggingFaceReader"]


@public_in("torchbucket.dcp")
class BucketHuggingFaceReader(BucketStorageReader):
    """Reads safetensors files from a bucket, for ``torch.distributed.checkpoint.load``.

        dcp.load(state, storage_reader=BucketHuggingFaceReader("s3://bucket/run-1/step-100"))

    It reads what ``BucketHuggingFaceWriter`` and PyTorch's ``HuggingFaceStorageWriter`` have written, whole tensors or
    parts, and any model in Hugging Face's layout, onto any number of ranks. Only the headers and the wanted rows are
    fetched, of all files at the same time, straight into the memory of tensors on the CPU that have the stored dtype
    and are contiguous.

    Args:
        uri: the directory's address. A ``checkpoint_id`` given to ``load`` takes its place.
        config: how to reach the bucket; None means ``StoreConfig()``.
        read_once: see ``BucketStorageReader``.
        metadata_once: have each rank read the headers of some of the files, and get the others from the other ranks.
            See ``BucketStorageReader``.
        process_group: see ``BucketStorageReader``.

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
    ) -> None:
        super().__init__(
            uri, config=config, read_once=read_once, metadata_once=metadata_once, process_group=process_group
        )
        self._pieces = Pieces({}, {})
        self._boxes: dict[MetadataIndex, Box] = {}

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Read the headers of the files, and nothing else.

        Raises:
            NotFoundError: there is no complete checkpoint, or a file of it is missing.
            CheckpointError: a file is cut or damaged, or they are of different checkpoints; with ``metadata_once``, or
                another rank could not read its part.
            StoreError: they could not be read.
        """
        return super().read_metadata(*args, **kwargs)

    def _may_be_each_rank_s(self, error: Exception) -> bool:
        del error
        return False  # this layout has one index for all

    def _read_metadata(self, rank: int | None) -> Metadata:
        del rank
        ranks = Ranks(self._group_for_metadata())
        found = ranks.first_does(lambda: find_layout(self._directory), "could not find the files")
        self._pieces = read_pieces(self._directory, found.names, found.file_of, ranks)
        tensors, places = {}, {}
        self._boxes = {}
        for name, tensor in self._pieces.tensors.items():
            tensors[name] = TensorStorageMetadata(
                properties=TensorProperties(dtype=tensor.dtype),
                size=torch.Size(tensor.shape),
                chunks=[
                    ChunkStorageMetadata(torch.Size(piece.box.offsets), torch.Size(piece.box.shape))
                    for piece in tensor.pieces
                ],
            )
            for piece in tensor.pieces:
                index = MetadataIndex(name, torch.Size(piece.box.offsets))
                if index in places and not piece.box.size:
                    continue  # A part without elements may begin where another does.
                places[index] = _StorageInfo(piece.file, piece.start, piece.stop - piece.start)
                self._boxes[index] = piece.box
        meta = StorageMeta(checkpoint_id=self.checkpoint_id, save_id=found.save_id, load_id=self._load_id)
        return Metadata(state_dict_metadata=dict(tensors), storage_data=places, storage_meta=meta)

    def _read(self, items: Sequence[ReadItem], planner: LoadPlanner, assignment: Assignment) -> None:
        super()._read(items, planner, dataclasses.replace(assignment, files=self._seen(assignment.files)))

    def _seen(self, assigned: Mapping[str, FoundFile]) -> dict[str, FoundFile]:
        """The versions whose headers this rank has read, which must be those that the coordinator has found."""
        seen = {}
        for name, file in self._pieces.files.items():
            info, other = file.info, assigned.get(name)
            if other is not None and (
                other.size_bytes != info.size_bytes
                or (None not in (other.version, info.version) and other.version != info.version)
            ):
                raise CheckpointError(
                    f"{file.uri}: it was written anew while the checkpoint was being loaded, so that the ranks see "
                    "different ones; load again",
                    uri=file.uri,
                )
            seen[name] = FoundFile(info.size_bytes, info.version)
        return seen

    def _assigned(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Look for the files, once it is sure that the stored parts are all of what is wanted: a planner asks for what
        there is of a tensor, and leaves the rest as it was."""
        for name in sorted({item.storage_index.fqn for plan in plans for item in plan.items}):
            self._pieces.tensors[name].check_whole(self.checkpoint_id)
        return super()._assigned(plans)

    def _read_of(self, item: ReadItem, planner: LoadPlanner) -> ItemRead:
        place = self._place(item)
        tensor = self._pieces.tensors[item.storage_index.fqn]
        box = self._boxes[item.storage_index]
        return PartRead(self._directory.file_uri(place.relative_path), item, place, box, tensor.dtype, planner)
