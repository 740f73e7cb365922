"""Saving an object as a checkpoint of PyTorch, from its tensors' own memory where that is possible."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

import torch

from torchbucket.checkpoint.archive import lay_out
from torchbucket.checkpoint.background import background
from torchbucket.checkpoint.location import store_and_key
from torchbucket.checkpoint.read_back import SUM, SummingFile, read_back
from torchbucket.config import StoreConfig
from torchbucket.errors import StoreError
from torchbucket.public import public, public_in
from torchbucket.store.protocol import ObjectInfo, Store, address_in
from torchbucket.uri import Address

__all__ = ["PICKLE_PROTOCOL", "save", "save_to", "send"]

PICKLE_PROTOCOL: Final = torch.serialization.DEFAULT_PROTOCOL


@public
def save(
    obj: Any,
    uri: Address,
    *,
    config: StoreConfig | None = None,
    pickle_module: Any = pickle,
    pickle_protocol: int = PICKLE_PROTOCOL,
    multipart: bool = True,
    verify: bool = False,
    _use_new_zipfile_serialization: bool = True,
) -> ObjectInfo:
    """Save an object, as ``torch.save`` does, to an address; it appears whole when this returns, or not at all.

    Tensors on the CPU are sent straight from their own memory, without a copy: no other thread may change them before
    this returns. What cannot be sent so (tensors on other devices, of subclasses, quantized ones, another
    ``pickle_module``, the old format) goes through a buffer of at most ``memory_budget_bytes``, to the same result.

    Args:
        obj: anything that ``torch.save`` takes.
        uri: the object's address, such as ``s3://bucket/run-1/step-100.pt``.
        config: how to reach the bucket; None means ``StoreConfig()``.
        pickle_module: as of ``torch.save``.
        pickle_protocol: as of ``torch.save``.
        multipart: send large objects in parts, as long as they need to be for 10,000 to suffice. False makes it one
            request, for services without uploads in parts: up to 5 GiB, and what cannot be sent from where it lies is
            gathered in memory first.
        verify: read the object back once it is there, in pieces, and compare its checksum with that of what was sent.
            It takes as long as a load, and the right to read. Without, the provider still compares a checksum of each
            request with what it has received.
        _use_new_zipfile_serialization: as of ``torch.save``; False writes the old format.

    Returns:
        What the store says of the object.

    Raises:
        ConfigError: a wrong address or setting.
        StoreError: the write failed, and what the address held before is untouched; or an earlier ``save_async``
            failed, and nobody has asked its future.
        ChecksumError: with ``verify``, the object is there and has other bytes than were sent.
    """
    store, key = store_and_key(uri, config)
    return save_to(
        store,
        key,
        obj,
        pickle_module=pickle_module,
        pickle_protocol=pickle_protocol,
        multipart=multipart,
        verify=verify,
        _use_new_zipfile_serialization=_use_new_zipfile_serialization,
    )


@public_in("torchbucket.checkpoint")
def save_to(
    store: Store,
    key: str,
    obj: Any,
    *,
    pickle_module: Any = pickle,
    pickle_protocol: int = PICKLE_PROTOCOL,
    multipart: bool = True,
    verify: bool = False,
    _use_new_zipfile_serialization: bool = True,
) -> ObjectInfo:
    """Save an object under a key of a store; see ``save``."""
    background.wait_for(address_in(store, key))
    archive = None
    if pickle_module is pickle and _use_new_zipfile_serialization:
        archive = lay_out(obj, pickle_protocol)
    if archive is not None and archive.in_memory:
        return send(store, key, archive.views(), multipart=multipart, verify=verify)

    def write(file: BinaryIO) -> None:
        if archive is not None:
            archive.write_to(file)
        else:
            with _what_the_file_raised():
                torch.save(obj, file, pickle_module, pickle_protocol, _use_new_zipfile_serialization)

    if not multipart:
        gathered = io.BytesIO()
        write(gathered)
        return send(store, key, [gathered.getbuffer()], multipart=False, verify=verify)
    with store.open_writer(key, size_hint=None if archive is None else archive.size_bytes) as writer:
        file = SummingFile(writer) if verify else writer
        write(file)
    if isinstance(file, SummingFile):
        read_back(store, writer.info, file.value, uri=address_in(store, key))
    return writer.info


@contextmanager
def _what_the_file_raised() -> Iterator[None]:
    """Raise the store's own error where torch has hidden it behind one of its own, which tells of a wrong position."""
    try:
        yield
    except RuntimeError as error:
        cause = error.__context__
        while cause is not None and not isinstance(cause, StoreError):
            cause = cause.__context__
        if cause is None:
            raise
        raise cause from None


def send(store: Store, key: str, pieces: Sequence[memoryview], *, multipart: bool, verify: bool) -> ObjectInfo:
    """Write an object from memory, which must not change meanwhile."""
    info = store.write_from(key, pieces, multipart=multipart)
    if verify:
        read_back(store, info, SUM.of(pieces).value, uri=address_in(store, key))
    return info
