"""Where the tensors of a checkpoint lie: one file, or several by an index, found by their address."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Final, NoReturn, TypeVar

from torchbucket.config import StoreConfig, check_config
from torchbucket.errors import CheckpointError, NotFoundError
from torchbucket.safetensors.header import (
    HEADER_BYTES_LIMIT,
    LENGTH_BYTES,
    Header,
    TensorPlace,
    json_object,
    json_stop,
    parse_header,
    quoted,
)
from torchbucket.store.protocol import ObjectData, ObjectInfo, Read, Store, address_in
from torchbucket.store.shared import shared_store
from torchbucket.uri import Address, ObjectURI

__all__ = [
    "INDEX_NAME",
    "INDEX_SUFFIX",
    "SINGLE_NAME",
    "PlacedTensors",
    "TensorFile",
    "all_of",
    "find_tensors",
    "header_digest",
    "parse_index",
    "read_headers",
    "whole_index",
]

T = TypeVar("T")

SINGLE_NAME: Final = "model.safetensors"
INDEX_NAME: Final = "model.safetensors.index.json"
"""What a directory's files are called. *Source:* transformers, ``SAFE_WEIGHTS_NAME``, ``SAFE_WEIGHTS_INDEX_NAME``."""
INDEX_SUFFIX: Final = ".index.json"

# One request brings most headers whole: a tensor takes 100 bytes or so.
_FIRST_READ_BYTES: Final = 64 << 10
_WINDOWS_PATH: Final = re.compile(r"[\\:\x00-\x1f]")


@dataclass(frozen=True, slots=True)
class TensorFile:
    """One safetensors file, whose header was read.

    Args:
        uri: its address.
        info: the object, of the version that the header is of.
        header: what the header says.
        digest: of the header's bytes, to tell whether they come the same once more; see ``header_digest``.
    """

    uri: str
    info: ObjectInfo
    header: Header
    digest: bytes

    @property
    def key(self) -> str:
        """The object's key."""
        return self.info.key


@dataclass(frozen=True, slots=True)
class PlacedTensors:
    """The tensors of a checkpoint, and where each lies.

    Args:
        store: the bucket.
        uri: the address of the file, or of the index.
        files: all files.
        places: file and place of each tensor by its name, file after file in the order of their bytes.
        metadata: of the file's header, or of the index; None where it has none.
    """

    store: Store
    uri: str
    files: Sequence[TensorFile]
    places: Mapping[str, tuple[TensorFile, TensorPlace]]
    metadata: Mapping[str, Any] | None


def find_tensors(uri: Address, config: StoreConfig | None = None) -> PlacedTensors:
    """Read the headers of a checkpoint, and nothing else, and check them.

    Args:
        uri: the address of a safetensors file, of an index (``….index.json``), or of a directory in which there is
            either ``model.safetensors`` or ``model.safetensors.index.json``.
        config: the settings; None means the defaults.

    Raises:
        CheckpointError: a file is no safetensors file or damaged, or the index does not fit the files.
        StoreError: a read failed; ``NotFoundError`` where there is no such file.
    """
    check_config(config)
    location = ObjectURI.parse(uri)
    store = shared_store(location, config)
    key = location.key
    if key.endswith(INDEX_SUFFIX):
        return _of_index(store, key, whole_index(store, key))
    if key and not key.endswith("/"):
        try:
            return _of_file(store, read_headers(store, [key])[0])
        except NotFoundError as error:
            found = _in_directory(store, f"{key}/")
            if found is None:
                raise error from None
            return found
    found = _in_directory(store, key)
    if found is None:
        raise NotFoundError(
            f"{location} has neither {SINGLE_NAME} nor {INDEX_NAME}; name the file, or the index, itself",
            operation="read",
            uri=str(location),
        )
    return found


def read_headers(store: Store, keys: Sequence[str]) -> list[TensorFile]:
    """Read and check the headers of several files at once.

    Raises:
        CheckpointError: one is no safetensors file, or damaged.
        StoreError: a read failed.
    """
    started = all_of([store.submit_read(Read(key=key, stop=_FIRST_READ_BYTES)) for key in keys])
    stops = [
        json_stop(address_in(store, key), memoryview(data.data), data.info.size_bytes)
        for key, data in zip(keys, started, strict=True)
    ]
    rests = all_of(
        [
            store.submit_read(
                Read(
                    key=key,
                    start=len(data.data),
                    stop=stop,
                    size_bytes=data.info.size_bytes,
                    version=data.info.version,
                )
            )
            for key, data, stop in zip(keys, started, stops, strict=True)
            if stop > len(data.data)
        ]
    )
    by_key = {rest.info.key: rest for rest in rests}
    return [
        _file(store, key, data, by_key.get(key), stop) for key, data, stop in zip(keys, started, stops, strict=True)
    ]


def header_digest(data: bytes | bytearray | memoryview) -> bytes:
    """A digest of a header with its length in front."""
    return hashlib.blake2b(data, digest_size=16).digest()


def all_of(futures: Sequence[Future[T]]) -> list[T]:
    """Wait for all; where one fails, or the wait is interrupted, cancel those that are left."""
    try:
        return list(map(methodcaller("result"), futures))
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    finally:
        future = None  # type: ignore[assignment]
        del futures  # An error keeps the frames that it passes, which must not keep it in turn.


def _file(store: Store, key: str, start: ObjectData, rest: ObjectData | None, stop: int) -> TensorFile:
    uri = address_in(store, key)
    data = bytes(start.data) if rest is None else bytes(start.data) + bytes(rest.data)
    header = parse_header(uri, memoryview(data)[LENGTH_BYTES:stop], start.info.size_bytes)
    return TensorFile(uri, start.info, header, header_digest(memoryview(data)[:stop]))


def _of_file(store: Store, file: TensorFile) -> PlacedTensors:
    places = {name: (file, place) for name, place in file.header.tensors.items()}
    return PlacedTensors(store, file.uri, [file], places, file.header.metadata)


def _in_directory(store: Store, prefix: str) -> PlacedTensors | None:
    single, index = f"{prefix}{SINGLE_NAME}", f"{prefix}{INDEX_NAME}"
    text = _unless_absent(lambda: whole_index(store, index))
    file = _unless_absent(lambda: read_headers(store, [single])[0])
    if text is not None and file is not None:
        raise CheckpointError(
            f"{address_in(store, prefix)} has both {SINGLE_NAME} and {INDEX_NAME}, which may be two different "
            "checkpoints: name the one that is meant",
            uri=address_in(store, prefix),
        )
    if text is not None:
        return _of_index(store, index, text)
    return None if file is None else _of_file(store, file)


def _unless_absent(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except NotFoundError:
        return None


def whole_index(store: Store, key: str) -> bytes:
    """The bytes of an index; ``CheckpointError`` where there are more than any index has."""
    data = store.read(key, stop=HEADER_BYTES_LIMIT)
    if data.info.size_bytes > HEADER_BYTES_LIMIT:
        uri = address_in(store, key)
        _refuse(uri, f"it has {data.info.size_bytes} bytes, and an index {HEADER_BYTES_LIMIT} at most")
    return bytes(data.data)


def parse_index(uri: str, text: bytes) -> tuple[dict[str, str], dict[str, Any] | None]:
    """The file of each tensor, which is beside the index or below, and the metadata of an index.

    Args:
        uri: the index's address, for messages.
        text: its bytes.

    Raises:
        CheckpointError: it is no index.
    """
    index = json_object(uri, text, "the index")
    file_names, metadata = index.get("weight_map"), index.get("metadata")
    if not isinstance(file_names, dict):
        _refuse(uri, "an index needs weight_map, an object that names the file of each tensor")
    if metadata is not None and not isinstance(metadata, dict):
        _refuse(uri, f"metadata of an index must be an object; got {quoted(metadata)}")
    for name, file_name in file_names.items():
        _check_file_name(uri, name, file_name)
    return file_names, metadata


def _of_index(store: Store, key: str, text: bytes) -> PlacedTensors:
    uri = address_in(store, key)
    file_names, metadata = parse_index(uri, text)
    directory = key[: key.rfind("/") + 1]
    wanted = sorted(set(file_names.values()))
    try:
        files = read_headers(store, [directory + file_name for file_name in wanted])
    except NotFoundError as error:
        raise NotFoundError(
            f"{uri} names {error.uri}, which is not there: {error}", operation="read", uri=error.uri
        ) from error
    by_name = dict(zip(wanted, files, strict=True))
    places = _places(uri, file_names, by_name)
    _check_total(uri, metadata, files, places)
    return PlacedTensors(store, uri, files, places, metadata)


def _places(
    uri: str, file_names: Mapping[str, str], files: Mapping[str, TensorFile]
) -> dict[str, tuple[TensorFile, TensorPlace]]:
    for name, file_name in file_names.items():
        if name not in files[file_name].header.tensors:
            others = [other for other, file in files.items() if name in file.header.tensors]
            _refuse(
                uri,
                f"the index says that {quoted(name)} is in {file_name}, and that file ({files[file_name].uri}) does "
                f"not have it{f'; {others[0]} does' if others else ''}: index and files are of different checkpoints",
            )
    return {
        name: (file, place)
        for file_name, file in files.items()
        for name, place in file.header.tensors.items()
        if file_names.get(name) == file_name
    }


def _check_total(
    uri: str,
    metadata: Mapping[str, Any] | None,
    files: Sequence[TensorFile],
    places: Mapping[str, tuple[TensorFile, TensorPlace]],
) -> None:
    """Raise unless the size that the index tells is that of its tensors, or of its files with what else is in them."""
    total = None if metadata is None else metadata.get("total_size")
    in_index = sum(place.size_bytes for _, place in places.values())
    in_files = sum(file.info.size_bytes - file.header.stop for file in files)
    if total is not None and total not in (in_index, in_files):
        _refuse(
            uri,
            f"the index says that its tensors have {quoted(total)} bytes, and the {len(files)} files have {in_files} "
            f"({', '.join(file.uri for file in files[:3])}{', …' if len(files) > 3 else ''}): index and files are of "
            "different checkpoints",
        )


def _check_file_name(uri: str, name: str, file_name: object) -> None:
    """Raise unless a file that an index names is one beside or below it."""
    if (
        not isinstance(file_name, str)
        or _WINDOWS_PATH.search(file_name)
        or any(part in ("", ".", "..") for part in file_name.split("/"))
    ):
        _refuse(uri, f"the index puts {quoted(name)} into {quoted(file_name)}; a file beside the index is needed")


def _refuse(uri: str, reason: str) -> NoReturn:
    raise CheckpointError(f"{uri}: {reason}", uri=uri)
