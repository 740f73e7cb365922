"""What the files of the safetensors layout are called, and which tensor goes into which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from torchbucket.errors import CheckpointError, ConfigError
from torchbucket.safetensors.header import quoted

__all__ = [
    "FILE_NAME",
    "SHARDED_NAME",
    "SUFFIX",
    "checked_mapping",
    "file_name",
    "is_shard",
    "numbers_in_names",
    "numbers_of",
]

# The names are those of PyTorch's HuggingFaceStorageWriter, whose consolidation and readers go by them.
SUFFIX: Final = ".safetensors"
SHARDED_NAME: Final = "sharded"
"""The directory of the shards, in that of the whole tensors."""

FILE_NAME: Final = re.compile(r"(?:(shard-)\d{5,}-)?model-(\d{5,})-of-(\d{5,})\.safetensors")
"""Any file's name."""


def file_name(number: int, largest: int, shard: int | None = None) -> str:
    """The name of a file.

    Args:
        number: which of the files that together have all tensors, from 1.
        largest: the largest such number.
        shard: which rank's part of it, from 1; None where the tensors in it are whole.
    """
    name = f"model-{number:05}-of-{largest:05}{SUFFIX}"
    return name if shard is None else f"shard-{shard:05}-{name}"


def is_shard(name: str) -> bool:
    """Whether a file has parts of tensors, by its name."""
    found = FILE_NAME.fullmatch(name.rpartition("/")[2])
    return found is not None and found[1] is not None


def checked_mapping(mapping: Mapping[str, int] | None) -> dict[str, int] | None:
    """The number of the file of each tensor, as a caller gives it.

    Raises:
        ConfigError: it is no such mapping.
    """
    if mapping is None:
        return None
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"fqn_to_index_mapping: the number of its file for each tensor's name; got {mapping!r}")
    for name, number in mapping.items():
        if not isinstance(name, str) or not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise ConfigError(
                "fqn_to_index_mapping: the number of its file, at least 1, for each tensor's name; got "
                f"{quoted(name)}: {quoted(number)}"
            )
    return dict(mapping)


def numbers_of(mapping: Mapping[str, int] | None, names: Iterable[str], uri: str) -> tuple[dict[str, int], int]:
    """The number of each tensor's file, and the largest of all numbers.

    Args:
        mapping: what a caller gave; None puts all into one file.
        names: the tensors.
        uri: the checkpoint, for messages.

    Raises:
        CheckpointError: a tensor has no number.
    """
    if mapping is None:
        return dict.fromkeys(names, 1), 1
    names = list(names)
    if missing := [name for name in names if name not in mapping]:
        raise CheckpointError(
            f"{uri}: fqn_to_index_mapping has no file for {len(missing)} of the {len(names)} tensors, such as "
            f"{', '.join(map(quoted, missing[:3]))}: give each a number",
            uri=uri,
        )
    return {name: mapping[name] for name in names}, max(mapping.values(), default=1)


def numbers_in_names(files: Mapping[str, Iterable[str]]) -> tuple[dict[str, int], int] | None:
    """The numbers of tensors' files, and the largest, that the names of their shards tell; None where they do not.

    Args:
        files: the tensors in each file, by the file's name.
    """
    numbers: dict[str, int] = {}
    largest = set()
    for file, tensors in files.items():
        found = FILE_NAME.fullmatch(file.rpartition("/")[2])
        if found is None:
            return None
        largest.add(int(found[3]))
        if any(numbers.setdefault(tensor, int(found[2])) != int(found[2]) for tensor in tensors):
            return None
    return (numbers, largest.pop()) if len(largest) == 1 else None
