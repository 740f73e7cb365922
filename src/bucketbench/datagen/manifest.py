"""The list of a data set's objects, with sizes and checksums: what a benchmark checks its content against.

A manifest is JSON, one value a line: a header with the format's name, its version and the data set's spec, then one
line an object, with the members of a tar shard in it. It lies beside the data set's prefix, not under it, so that no
client takes it for a sample.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from bucketbench.datagen.errors import DatagenError
from bucketbench.datagen.spec import DatasetSpec

__all__ = ["Manifest", "ManifestEntry", "ManifestMember"]

_FORMAT: Final = "bucketbench-manifest"
_VERSION: Final = 2
_READ_VERSIONS: Final = (1, 2)
"""Version 1 has no members, and so is of no use for tar shards; of single objects both say the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestMember:
    """One member of a tar shard: its name there, the size of its content, and that content's XXH3-128."""

    name: str
    size_bytes: int
    xxh3_128: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestEntry:
    """One object.

    Args:
        key: relative to the data set's prefix.
        size_bytes: of the object.
        xxh3_128: of its content, in hexadecimal.
        members: of a tar shard, in the order of the archive; none of an object that is no shard.
    """

    key: str
    size_bytes: int
    xxh3_128: str
    members: tuple[ManifestMember, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The entry as plain JSON values."""
        fields: dict[str, Any] = {"key": self.key, "size_bytes": self.size_bytes, "xxh3_128": self.xxh3_128}
        if self.members:
            fields["members"] = [asdict(member) for member in self.members]
        return fields

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The entry of which ``to_json`` gave the fields; raise ``TypeError`` where they are not an entry's."""
        members = tuple(ManifestMember(**member) for member in fields.get("members", ()))
        return cls(**{**fields, "members": members})


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """A data set's objects, in the order of their keys.

    Args:
        spec: what the data set was generated from.
        entries: its objects.
        made_with: releases of the libraries that made the images.
    """

    spec: DatasetSpec
    entries: tuple[ManifestEntry, ...]
    made_with: dict[str, str] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Bytes of all objects together."""
        return sum(entry.size_bytes for entry in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def to_bytes(self) -> bytes:
        """The manifest as it is stored."""
        header = {
            "format": _FORMAT,
            "version": _VERSION,
            "spec": self.spec.to_json(),
            "made_with": self.made_with,
            "objects": len(self.entries),
        }
        lines: Iterable[dict[str, Any]] = (header, *(entry.to_json() for entry in self.entries))
        return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode()

    @classmethod
    def from_bytes(cls, content: bytes, *, source: str) -> Self:
        """Read a stored manifest; ``source`` is its address, for messages.

        Raises:
            DatagenError: it is no manifest, one of another version, or not whole.
        """
        try:
            header, *lines = (json.loads(line) for line in content.decode().removesuffix("\n").split("\n"))
            if header["format"] != _FORMAT:
                raise DatagenError(f"{source} is not a data set's manifest: its format is {header['format']!r}")
            if header["version"] not in _READ_VERSIONS:
                raise DatagenError(
                    f"{source} has version {header['version']!r} of the manifest's format, this release reads "
                    f"{_VERSION} and before; generate the data set again under another prefix"
                )
            entries = tuple(ManifestEntry.from_json(line) for line in lines)
            spec, made_with, objects = DatasetSpec.from_json(header["spec"]), header["made_with"], header["objects"]
        except (ValueError, KeyError, TypeError) as error:
            raise DatagenError(f"{source} is not a data set's manifest, or is damaged: {error!r}") from error
        if spec.is_sharded and not all(entry.members for entry in entries):
            raise DatagenError(
                f"{source} is of an earlier release and does not say what its tar shards hold; generate the data set "
                "again under another prefix"
            )
        if len(entries) != objects:
            raise DatagenError(
                f"{source} is not whole: its header announces {objects} objects, it lists {len(entries)}"
            )
        return cls(spec=spec, entries=entries, made_with=made_with)

    def write(self, path: Path) -> None:
        """Store the manifest in a local file, for another process to read."""
        path.write_bytes(self.to_bytes())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the manifest in a local file; raise as ``from_bytes``."""
        return cls.from_bytes(path.read_bytes(), source=str(path))
