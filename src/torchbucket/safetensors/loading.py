"""Whole tensors read into memory of their own, all at once."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future

import torch

from torchbucket.config import StoreConfig
from torchbucket.errors import ChecksumError
from torchbucket.public import public_in
from torchbucket.safetensors.header import TensorPlace
from torchbucket.safetensors.places import PlacedTensors, TensorFile, all_of, find_tensors, header_digest
from torchbucket.safetensors.streaming import arriving
from torchbucket.safetensors.tensors import empty_tensor, memory_of, torch_dtype, torch_shape
from torchbucket.store.fresh_memory import populate
from torchbucket.store.protocol import ObjectInfo, Store, Target
from torchbucket.uri import Address

__all__ = ["load_file", "read_tensors"]


@public_in("torchbucket.safetensors")
def load_file(
    uri: Address, device: str | int | torch.device = "cpu", config: StoreConfig | None = None
) -> dict[str, torch.Tensor]:
    """Load all tensors of a safetensors checkpoint.

    Each tensor has memory of its own, into which its bytes go straight from the connection, all of one version of the
    object. Memory on the CPU is the checkpoint's size and some KiB; with another device 256 MiB at a time.

    Args:
        uri: the address of a file, of an index (``….safetensors.index.json``), or of a directory in which there is
            ``model.safetensors`` or ``model.safetensors.index.json``.
        device: where the tensors are to be, as ``torch.device`` takes it.
        config: the settings; None means the defaults.

    Returns:
        The tensors by name, in the order of their bytes, file after file.

    Raises:
        CheckpointError: a file is no safetensors file or damaged, or an index does not fit its files; no tensor's
            bytes have been read then.
        StoreError: a read failed; ``NotFoundError`` where there is no such object, ``ObjectChangedError`` where it was
            overwritten meanwhile.
    """
    target = torch.device(device)
    found = find_tensors(uri, config)
    if target.type != "cpu":
        tensors = dict(arriving(found, target))
        return {name: tensors[name] for name in found.places}
    return read_tensors(found, found.places)


def read_tensors(found: PlacedTensors, names: Iterable[str]) -> dict[str, torch.Tensor]:
    """Read some tensors at once; of a file of which all are wanted, also the header, so that its checksum is checked.

    Args:
        found: where the tensors lie.
        names: which of them, in any order.

    Raises:
        CheckpointError: a dtype that this torch lacks.
        StoreError: a read failed.
    """
    wanted: dict[str, tuple[TensorFile, list[TensorPlace]]] = {}
    tensors: dict[str, torch.Tensor] = {}
    for name in dict.fromkeys(names):
        file, place = found.places[name]
        tensors[name] = empty_tensor(torch_shape(file.uri, place), torch_dtype(file.uri, place))
        wanted.setdefault(file.key, (file, []))[1].append(place)
    headers = {
        key: bytearray(file.header.stop if len(places) == len(file.header.tensors) else 0)
        for key, (file, places) in wanted.items()
    }
    reads = [_submit(found.store, file, places, tensors, headers[file.key]) for file, places in wanted.values()]
    try:
        populate(((tensor.data_ptr(), tensor.nbytes) for tensor in tensors.values()), reads)
        all_of(reads)
    finally:
        del reads  # An error keeps the frames that it passes, which must not keep it in turn.
    for file, _ in wanted.values():
        if headers[file.key] and header_digest(headers[file.key]) != file.digest:
            raise ChecksumError(
                f"{file.uri}: its header, read twice, came differently, and what came last has the checksum of the "
                "object: the first was damaged on the way; load again",
                operation="read",
                uri=file.uri,
            )
    return tensors


def _submit(
    store: Store, file: TensorFile, places: list[TensorPlace], tensors: dict[str, torch.Tensor], header: bytearray
) -> Future[ObjectInfo]:
    targets: list[Target] = [(place.start, memory_of(tensors[place.name])) for place in places]
    if header:
        targets.append((0, memoryview(header)))
    return store.submit_read_into(file.key, targets, size_bytes=file.info.size_bytes, version=file.info.version)
