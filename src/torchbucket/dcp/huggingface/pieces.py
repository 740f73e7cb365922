"""Which tensors a directory of safetensors files has, and which part of each is where, by the files' headers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import torch

from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.huggingface.boxes import Box, TilingError, check_tiling
from torchbucket.dcp.ranks import Ranks
from torchbucket.errors import CheckpointError
from torchbucket.safetensors.header import TensorPlace, quoted
from torchbucket.safetensors.places import TensorFile, read_headers
from torchbucket.safetensors.tensors import torch_dtype, torch_shape

__all__ = ["Piece", "PieceOfTensor", "Pieces", "StoredPieces", "read_pieces", "sharding_texts"]

# Source: torch.distributed.checkpoint._hf_utils (torch 2.13), by whose names PyTorch finds the parts. `global_shape` is
# ours: PyTorch takes the end of the last part for that of the tensor.
_SHARDING_INFO: Final = "DCP_SHARDING_INFO"
_OFFSETS: Final = "saved_offsets"
_GLOBAL_SHAPE: Final = "global_shape"
_VERSION: Final = ("DCP_VERSION", "1.0")


@dataclass(frozen=True, slots=True)
class PieceOfTensor:
    """A part of a tensor that is to be stored.

    Args:
        name: the tensor's name.
        offsets: where the part begins, in the tensor's elements as torch counts them.
        shape: the whole tensor's.
    """

    name: str
    offsets: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a tensor that is stored.

    Args:
        file: the file's name below the directory.
        start: where in it the part's bytes begin.
        stop: where they end.
        box: which elements of the tensor they are.
    """

    file: str
    start: int
    stop: int
    box: Box


@dataclass(frozen=True, slots=True)
class StoredPieces:
    """A tensor, whole or in parts.

    Args:
        name: its name.
        kind: of its elements, as a header has it.
        dtype: of its elements.
        shape: its shape.
        pieces: its parts.
    """

    name: str
    kind: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    pieces: Sequence[Piece]

    @property
    def size_bytes(self) -> int:
        """How many bytes it has as a whole."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize

    def check_whole(self, uri: str) -> None:
        """Raise ``CheckpointError`` unless the parts are all of it, each element once."""
        try:
            check_tiling(self.shape, [piece.box for piece in self.pieces])
        except TilingError as error:
            files = list(dict.fromkeys(self.pieces[position].file for position in error.boxes))
            raise CheckpointError(
                f"{uri}: the parts of {quoted(self.name)} are not one tensor: {error} (in {', '.join(files[:4])}"
                f"{', …' if len(files) > 4 else ''}): a file is missing, or is of another save; save again, or load an "
                "earlier checkpoint",
                uri=uri,
            ) from None


@dataclass(frozen=True, slots=True)
class Pieces:
    """What a directory has.

    Args:
        files: the headers by the files' names.
        tensors: the tensors by their names.
    """

    files: Mapping[str, TensorFile]
    tensors: Mapping[str, StoredPieces]


def sharding_texts(pieces: Iterable[PieceOfTensor]) -> dict[str, str]:
    """What the header of a file with parts of tensors says of them, for PyTorch's readers and for ours."""
    info = {piece.name: {_OFFSETS: list(piece.offsets), _GLOBAL_SHAPE: list(piece.shape)} for piece in pieces}
    name, version = _VERSION
    return {"format": "pt", name: version, _SHARDING_INFO: json.dumps(info, ensure_ascii=False)}


def read_pieces(
    directory: CheckpointDirectory,
    names: Sequence[str],
    file_of: Mapping[str, str] | None = None,
    ranks: Ranks | None = None,
) -> Pieces:
    """Read the headers of files, and nothing else, and find what belongs together.

    Args:
        directory: where the files are.
        names: which of them.
        file_of: the file that each tensor is to be taken from, of an index; None means all that there is.
        ranks: who share the reading, and all do this; None means that this process does all of it.

    Raises:
        CheckpointError: a file is no safetensors file, or damaged or cut; parts that contradict each other; an index
            that names a tensor which its file does not have.
        StoreError: a read failed; ``NotFoundError`` where a file is missing.
    """
    files = _files(directory, names, Ranks(None) if ranks is None else ranks)
    found: dict[str, list[tuple[TensorPlace, Piece, tuple[int, ...] | None]]] = {}
    for name, file in files.items():
        info = _sharding_info(file)
        for place in file.header.tensors.values():
            if file_of is None or file_of.get(place.name) == name:
                piece, shape = _piece(name, file, place, info)
                found.setdefault(place.name, []).append((place, piece, shape))
    for tensor, name in ({} if file_of is None else file_of).items():
        if tensor not in found:
            _refuse(
                directory.uri,
                f"the index says that {quoted(tensor)} is in {name}, and that file does not have it: index and files "
                "are of different checkpoints",
            )
    tensors = {name: _joined(directory.uri, name, parts, files) for name, parts in found.items()}
    return Pieces(files, tensors)


def _files(directory: CheckpointDirectory, names: Sequence[str], ranks: Ranks) -> dict[str, TensorFile]:
    """The headers of all files, of which each rank reads as many as the others."""

    def read() -> list[TensorFile]:
        return read_headers(directory.store, [directory.key(name) for name in names[ranks.rank :: ranks.count]])

    of_ranks = ranks.all_do(read, "could not read the headers of its files")
    return {name: of_ranks[number % ranks.count][number // ranks.count] for number, name in enumerate(names)}


def _sharding_info(file: TensorFile) -> Mapping[str, Any] | None:
    text = (file.header.metadata or {}).get(_SHARDING_INFO)
    if not text:
        return None
    try:
        info = json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse(file.uri, f"{_SHARDING_INFO} of its header is no JSON: {str(error)[:200]}")
    if not isinstance(info, dict):
        _refuse(file.uri, f"{_SHARDING_INFO} of its header must be an object; it is {quoted(info)}")
    return info


def _piece(
    name: str, file: TensorFile, place: TensorPlace, info: Mapping[str, Any] | None
) -> tuple[Piece, tuple[int, ...] | None]:
    """A stored part, and the whole tensor's shape where the file tells it."""
    torch_dtype(file.uri, place)
    size = torch_shape(file.uri, place)
    if info is None:
        return Piece(name, place.start, place.stop, Box((0,) * len(size), size)), size
    said: Any = info.get(place.name)
    offsets = _counts(said.get(_OFFSETS), len(size)) if isinstance(said, dict) else None
    if offsets is None:
        _refuse(
            file.uri,
            f"{_SHARDING_INFO} of its header must have {_OFFSETS} of {quoted(place.name)}, {len(size)} whole numbers; "
            f"it has {quoted(said)}",
        )
    shape = _counts(said[_GLOBAL_SHAPE], len(size)) if _GLOBAL_SHAPE in said else None
    if shape is None and _GLOBAL_SHAPE in said:
        _refuse(
            file.uri,
            f"{_GLOBAL_SHAPE} of {quoted(place.name)} must be {len(size)} whole numbers; it is "
            f"{quoted(said[_GLOBAL_SHAPE])}",
        )
    return Piece(name, place.start, place.stop, Box(offsets, size)), shape


def _counts(value: object, length: int) -> tuple[int, ...] | None:
    if not isinstance(value, list) or len(value) != length:
        return None
    return tuple(value) if all(type(item) is int and 0 <= item < 1 << 62 for item in value) else None


def _joined(
    uri: str,
    name: str,
    parts: Sequence[tuple[TensorPlace, Piece, tuple[int, ...] | None]],
    files: Mapping[str, TensorFile],
) -> StoredPieces:
    """One tensor of its parts, which must be of one dtype and shape."""
    first, piece, _ = parts[0]
    told = [shape for _, _, shape in parts if shape is not None]
    # PyTorch's own files do not tell it.
    ends = map(max, zip(*(part.box.stops for _, part, _ in parts), strict=False))
    shape = told[0] if told else tuple(ends)
    for place, other, said in parts:
        if place.dtype != first.dtype or len(other.box.shape) != len(shape) or said not in (None, shape):
            _refuse(
                uri,
                f"{quoted(name)} has the dtype {first.dtype} and the shape {list(shape)} in {piece.file}, and "
                f"{place.dtype} and {list(said or other.box.stops)} in {other.file}: they are of different saves",
            )
    dtype = torch_dtype(files[piece.file].uri, first)
    return StoredPieces(name, first.dtype, dtype, shape, [part for _, part, _ in parts])


def _refuse(uri: str, reason: str) -> NoReturn:
    raise CheckpointError(f"{uri}: {reason}", uri=uri)
