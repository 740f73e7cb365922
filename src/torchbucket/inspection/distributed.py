"""What a distributed checkpoint holds, by its metadata alone."""

from __future__ import annotations

from torch.distributed.checkpoint.metadata import MetadataIndex, TensorStorageMetadata

from torchbucket.config import StoreConfig
from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.files_found import read_metadata
from torchbucket.dcp.huggingface.layout import find_layout
from torchbucket.dcp.huggingface.pieces import read_pieces
from torchbucket.inspection.contents import CheckpointContents, StoredTensor
from torchbucket.uri import ObjectURI

__all__ = ["read_distributed", "read_shards"]


def read_distributed(location: ObjectURI, config: StoreConfig | None) -> CheckpointContents:
    """Read the metadata of a checkpoint, given its directory."""
    directory = CheckpointDirectory.at(location, config)
    metadata = read_metadata(directory)
    places = metadata.storage_data or {}
    tensors = []
    others = 0
    for name, entry in metadata.state_dict_metadata.items():
        if not isinstance(entry, TensorStorageMetadata):
            others += 1
            continue
        dtype = entry.properties.dtype
        found = {
            place.relative_path
            for chunk in entry.chunks
            if (place := places.get(MetadataIndex(name, chunk.offsets))) is not None
        }
        tensors.append(
            StoredTensor(
                name=name,
                dtype=str(dtype).removeprefix("torch."),
                shape=tuple(entry.size),
                size_bytes=entry.size.numel() * dtype.itemsize,
                file=directory.file_uri(found.pop()) if len(found) == 1 else directory.uri,
            )
        )
    files = {
        directory.file_uri(info.key.removeprefix(directory.prefix)): info.size_bytes
        for info in directory.store.list(directory.prefix)
    }
    return CheckpointContents(
        uri=directory.uri,
        format="torch.distributed.checkpoint",
        files=files,
        tensors=tensors,
        tensors_bytes=sum(tensor.size_bytes for tensor in tensors),
        other_values=others,
    )


def read_shards(location: ObjectURI, config: StoreConfig | None) -> CheckpointContents:
    """Read the headers of a checkpoint whose safetensors files have parts of tensors, given its directory."""
    directory = CheckpointDirectory.at(location, config)
    pieces = read_pieces(directory, find_layout(directory).names)
    tensors = []
    for tensor in pieces.tensors.values():
        files = {piece.file for piece in tensor.pieces}
        tensors.append(
            StoredTensor(
                name=tensor.name,
                dtype=str(tensor.dtype).removeprefix("torch."),
                shape=tensor.shape,
                size_bytes=tensor.size_bytes,
                file=directory.file_uri(files.pop()) if len(files) == 1 else directory.uri,
            )
        )
    return CheckpointContents(
        uri=directory.uri,
        format="safetensors (parts of tensors)",
        files={file.uri: file.info.size_bytes for file in pieces.files.values()},
        tensors=tensors,
        tensors_bytes=sum(tensor.size_bytes for tensor in tensors),
    )
