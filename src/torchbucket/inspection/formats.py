"""The formats of checkpoints: how each is recognised, and what reads its headers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torchbucket.config import StoreConfig, check_config
from torchbucket.dcp.manifest import MANIFEST_NAME
from torchbucket.errors import CheckpointError, NotFoundError
from torchbucket.files.reader import ObjectReader
from torchbucket.inspection.contents import CheckpointContents, StoredTensor
from torchbucket.inspection.torch_files import LEGACY_START, ZIP_START, read_archive, read_legacy
from torchbucket.public import public_in
from torchbucket.safetensors.dtypes import DTYPES
from torchbucket.safetensors.places import INDEX_SUFFIX, find_tensors
from torchbucket.store.shared import shared_store
from torchbucket.uri import Address, ObjectURI

__all__ = ["FORMATS", "CheckpointFormat", "inspect_checkpoint"]

_START_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class CheckpointFormat:
    """One format.

    Args:
        name: what users call it.
        recognises: whether an object of that key, which begins with those bytes, is of the format; a directory's key
            ends with a slash, and it has no bytes.
        read: reads the headers of what has that address.
    """

    name: str
    recognises: Callable[[str, bytes], bool]
    read: Callable[[ObjectURI, StoreConfig | None], CheckpointContents]


@public_in("torchbucket.inspection")
def inspect_checkpoint(uri: Address, config: StoreConfig | None = None) -> CheckpointContents:
    """Tell what a checkpoint holds, reading headers only; nothing that it names is imported or run.

    Args:
        uri: the address of a file of ``torch.save``, of a safetensors file or its index, or of a directory in which
            there is ``.metadata`` of a distributed checkpoint, ``model.safetensors`` or
            ``model.safetensors.index.json``.
        config: the settings; None means the defaults.

    Raises:
        CheckpointError: it is of no known format, or damaged.
        StoreError: a read failed; ``NotFoundError`` where there is no such object.
    """
    check_config(config)
    location = ObjectURI.parse(uri)
    key, start = location.key, b""
    if key and not key.endswith("/"):
        store = shared_store(location, config)
        try:
            start = bytes(store.read(key, stop=_START_BYTES).data)
        except NotFoundError as error:
            try:
                return inspect_checkpoint(
                    ObjectURI(scheme=location.scheme, bucket=location.bucket, key=f"{key}/"), config
                )
            except NotFoundError:
                raise error from None
    missing = None
    for form in FORMATS:
        if form.recognises(key, start):
            try:
                return form.read(location, config)
            except NotFoundError as error:
                if not _is_directory(key):
                    raise
                missing = error
    if missing is not None:
        raise missing
    raise CheckpointError(
        f"{location} is of none of the formats known here, which are {', '.join(form.name for form in FORMATS)}; it "
        f"begins with {start[:16]!r}",
        uri=str(location),
    )


def _is_directory(key: str) -> bool:
    """Whether a key is that of a directory, which may hold a checkpoint of any format that consists of files."""
    return not key or key.endswith("/")


def _read_distributed(location: ObjectURI, config: StoreConfig | None) -> CheckpointContents:
    from torchbucket.inspection.distributed import read_distributed  # it takes seconds to load torch

    return read_distributed(location, config)


def _is_safetensors(key: str, start: bytes) -> bool:
    return _is_directory(key) or key.endswith(INDEX_SUFFIX) or start[8:9] == b"{"


def _read_safetensors(location: ObjectURI, config: StoreConfig | None) -> CheckpointContents:
    try:
        found = find_tensors(location, config)
    except NotFoundError:
        if not _is_directory(location.key) or not _has_manifest(location, config):
            raise
        from torchbucket.inspection.distributed import read_shards  # it takes seconds to load torch

        return read_shards(location, config)
    tensors = [
        StoredTensor(
            name=name,
            dtype=DTYPES[place.dtype].torch_name or place.dtype,
            shape=place.shape,
            size_bytes=place.size_bytes,
            file=file.uri,
        )
        for name, (file, place) in found.places.items()
    ]
    return CheckpointContents(
        uri=found.uri,
        format="safetensors",
        files={file.uri: file.info.size_bytes for file in found.files},
        tensors=tensors,
        tensors_bytes=sum(tensor.size_bytes for tensor in tensors),
        metadata=found.metadata,
    )


def _has_manifest(location: ObjectURI, config: StoreConfig | None) -> bool:
    try:
        shared_store(location, config).head(f"{location.key}{MANIFEST_NAME}")
    except NotFoundError:
        return False
    return True


def _of_object(read: Callable[[ObjectReader], CheckpointContents]) -> Callable[..., CheckpointContents]:
    def read_object(location: ObjectURI, config: StoreConfig | None) -> CheckpointContents:
        store = shared_store(location, config)
        with ObjectReader.lazy(store, location.key, uri=str(location)) as reader:
            return read(reader)

    return read_object


FORMATS: Final = (
    CheckpointFormat(
        "torch.distributed.checkpoint", lambda key, _: len(key) > 1 and _is_directory(key), _read_distributed
    ),
    CheckpointFormat("safetensors", _is_safetensors, _read_safetensors),
    CheckpointFormat("torch", lambda _key, start: start.startswith(ZIP_START), _of_object(read_archive)),
    CheckpointFormat(
        "torch (legacy format)", lambda _key, start: start.startswith(LEGACY_START), _of_object(read_legacy)
    ),
)
"""All of them, asked in this order."""
