"""Tensors sent to a bucket as safetensors files, straight from their memory."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import torch

from torchbucket.config import StoreConfig, check_config
from torchbucket.errors import CheckpointError, ConfigError, NotFoundError, PermissionDeniedError, StoreError
from torchbucket.public import public_in
from torchbucket.safetensors.header import header_bytes, is_unicode, json_object, quoted
from torchbucket.safetensors.places import INDEX_NAME, whole_index
from torchbucket.safetensors.tensors import checked_tensors, element_type, memory_of, shape_in_file
from torchbucket.store.protocol import ObjectInfo, Store
from torchbucket.store.shared import shared_store
from torchbucket.uri import Address, ObjectURI

__all__ = ["save_file", "save_sharded"]

_SHARD_BYTES: Final = 5 << 30  # Source: huggingface_hub, ``MAX_SHARD_SIZE``, 5 GB.
_OWN_NAME: Final = re.compile(r"model-[0-9a-f]{8}-\d{5,}-of-\d{5,}\.safetensors")


@public_in("torchbucket.safetensors")
def save_file(
    tensors: Mapping[str, torch.Tensor],
    uri: Address,
    metadata: Mapping[str, str] | None = None,
    config: StoreConfig | None = None,
) -> ObjectInfo:
    """Save tensors as one safetensors file, whole or not at all.

    The object's bytes are those that ``safetensors.torch.save`` makes. Tensors on the CPU are sent from where they
    lie, without a copy, and must not change before the call returns; those of other devices are copied one by one.

    Args:
        tensors: contiguous tensors by name, no two of which share memory.
        uri: the object's address.
        metadata: texts by name, for the header.
        config: the settings; None means the defaults.

    Returns:
        The object as it was written.

    Raises:
        ConfigError: tensors or metadata that safetensors cannot hold, or no address of an object.
        StoreError: the write failed; the object is what it was before.
    """
    store, key = _target(uri, config)
    return _write(store, key, checked_tensors(tensors), _checked_metadata(metadata))


@public_in("torchbucket.safetensors")
def save_sharded(
    tensors: Mapping[str, torch.Tensor],
    base_uri: Address,
    max_shard_bytes: int = _SHARD_BYTES,
    metadata: Mapping[str, str] | None = None,
    config: StoreConfig | None = None,
) -> ObjectInfo:
    """Save tensors as several safetensors files and an index, which is written last and makes them a checkpoint.

    The files have names of their own in each save, so that a checkpoint that is in the directory already stays whole
    until the new index replaces its index; then its files are removed. Whatever fails leaves the one before.

    Args:
        tensors: contiguous tensors by name, no two of which share memory.
        base_uri: the address of the directory; the index is ``model.safetensors.index.json`` in it.
        max_shard_bytes: the tensors of one file have together at most so many bytes; a larger tensor has a file to
            itself.
        metadata: texts by name, for the header of each file; None means ``{"format": "pt"}``, which Hugging Face's
            loaders ask for.
        config: the settings; None means the defaults.

    Returns:
        The index as it was written.

    Raises:
        ConfigError: see ``save_file``; or a bound that is no positive number.
        StoreError: a write failed; what was written of the new checkpoint is removed, where that is possible.
    """
    if not isinstance(max_shard_bytes, int) or max_shard_bytes < 1:
        raise ConfigError(f"max_shard_bytes must be a whole number of bytes, at least 1; got {max_shard_bytes!r}")
    texts = _checked_metadata({"format": "pt"} if metadata is None else metadata)
    checked_tensors(tensors)
    store, prefix = _target(base_uri, config, directory=True)
    index_key = f"{prefix}{INDEX_NAME}"
    shards = _shards(tensors, max_shard_bytes)
    token = secrets.token_hex(4)
    names = [f"model-{token}-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    before = _own_files_of(store, index_key)
    written: list[str] = []
    try:
        for name, shard in zip(names, shards, strict=True):
            written.append(f"{prefix}{name}")
            _write(store, written[-1], checked_tensors(shard), texts)
    except BaseException:
        _remove(store, written)
        raise
    index = {
        "metadata": {"total_size": sum(tensor.nbytes for tensor in tensors.values())},
        "weight_map": {name: file for file, shard in zip(names, shards, strict=True) for name in shard},
    }
    text = json.dumps(index, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    # Where this fails the files stay: the index may be there all the same, and only the answer was lost.
    info = store.write(index_key, text.encode())
    _remove(store, [f"{prefix}{name}" for name in before])
    return info


def _target(uri: Address, config: StoreConfig | None, *, directory: bool = False) -> tuple[Store, str]:
    check_config(config)
    location = ObjectURI.parse(uri)
    key = location.key
    if directory:
        key = key if not key or key.endswith("/") else f"{key}/"
    elif not key or key.endswith("/"):
        raise ConfigError(
            f"{str(location)!r} is a bucket or a directory; give the file's own address, such as "
            f"{str(location).rstrip('/') + '/model.safetensors'!r}"
        )
    return shared_store(location, config), key


def _write(
    store: Store, key: str, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None
) -> ObjectInfo:
    """Send tensors, which are in the order of a file."""
    header = header_bytes(
        ((name, element_type(tensor).name, shape_in_file(tensor), tensor.nbytes) for name, tensor in tensors.items()),
        metadata,
    )
    if all(map(_on_cpu, tensors.values())):
        return store.write_from(key, [header, *map(memory_of, tensors.values())])
    size_bytes = len(header) + sum(tensor.nbytes for tensor in tensors.values())
    with store.open_writer(key, size_hint=size_bytes) as writer:
        writer.write(header)
        for tensor in tensors.values():
            writer.write(memory_of(tensor.cpu()))
    return writer.info


def _on_cpu(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu"


def _shards(tensors: Mapping[str, torch.Tensor], most_bytes: int) -> list[dict[str, torch.Tensor]]:
    """Divide tensors, in their order, into as few groups as that order allows; at least one."""
    shards: list[dict[str, torch.Tensor]] = [{}]
    size_bytes = 0
    for name, tensor in tensors.items():
        if shards[-1] and size_bytes + tensor.nbytes > most_bytes:
            shards.append({})
            size_bytes = 0
        shards[-1][name] = tensor
        size_bytes += tensor.nbytes
    return shards


def _checked_metadata(metadata: Mapping[str, str] | None) -> Mapping[str, str] | None:
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise ConfigError(f"metadata must be a dict of texts by name; got {type(metadata).__name__}")
    for name, value in metadata.items():
        if not (is_unicode(name) and is_unicode(value)):
            raise ConfigError(f"metadata must be texts by name; got {quoted(name)}: {quoted(value)}")
    return metadata


def _own_files_of(store: Store, index_key: str) -> list[str]:
    """The files that ``save_sharded`` wrote of the checkpoint that is there; none where it cannot be read."""
    try:
        index = json_object(index_key, whole_index(store, index_key), "the index")
    except (NotFoundError, PermissionDeniedError, CheckpointError):
        return []
    file_names = index.get("weight_map")
    if not isinstance(file_names, dict):
        return []
    return sorted({name for name in file_names.values() if isinstance(name, str) and _OWN_NAME.fullmatch(name)})


def _remove(store: Store, keys: Sequence[str]) -> None:
    """Remove files that no index names, as far as that is possible: they harm nobody."""
    for key in keys:
        with suppress(StoreError):
            store.delete(key)
