"""The samples that a client has to deliver, listed for the measured process: one JSON value a line.

A sample that is an object has ``key``, ``size_bytes`` and ``xxh3_128``; one of a tar shard has ``key`` and ``members``,
each member's size and XXH3-128 by extension. Where the client decodes, ``picture`` says beside these what the image
shows, in hexadecimal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bucketbench.datagen import DatagenError, DatasetSpec, Manifest, ManifestEntry

__all__ = ["expected_samples", "samples_in_shards"]


def expected_samples(manifest: Manifest, *, members: bool, pictures: bool) -> Iterator[dict[str, Any]]:
    """Every sample of a data set, in its order.

    Args:
        manifest: the data set's.
        members: whether a sample is what tar shards hold; otherwise it is an object.
        pictures: whether to say what each image shows.

    Raises:
        DatagenError: two samples in different shards have the same key, so that nobody could tell them apart.
    """
    found = samples_in_shards(manifest.entries) if members else _of_objects(manifest)
    for index, sample in enumerate(found):
        picture = _picture(manifest.spec, index) if pictures else None
        yield sample if picture is None else {**sample, "picture": picture}


def samples_in_shards(shards: Iterable[ManifestEntry]) -> Iterator[dict[str, Any]]:
    """The samples in tar shards: the members of each that share a key, in the order of the archive.

    Members whose name has no dot, or nothing before it, and those in or called ``__…__`` at the top belong to none.

    Raises:
        DatagenError: two samples in different shards have the same key.
    """
    shard_of: dict[str, str] = {}
    for entry in shards:
        samples: dict[str, dict[str, tuple[int, str]]] = {}
        for member in entry.members:
            key, extension = _key(member.name)
            if key and extension:
                samples.setdefault(key, {})[extension] = (member.size_bytes, member.xxh3_128)
        for key, members in samples.items():
            if key in shard_of:
                raise DatagenError(f"the sample {key!r} is in {shard_of[key]} and in {entry.key}: keys have to differ")
            shard_of[key] = entry.key
            yield {"key": key, "members": members}


def _key(name: str) -> tuple[str, str]:
    """The key and the extension of a member's name; both empty where it belongs to no sample.

    *Source:* WebDataset, "The WebDataset Format": the key is what comes before the first dot of the base name.
    """
    top = name.partition("/")[0]
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    is_own = top.startswith("__") and top.endswith("__")  # WebDataset's own files
    return ("", "") if is_own or not stem else (f"{folder}{slash}{stem}", extension.lower())


def _of_objects(manifest: Manifest) -> Iterator[dict[str, Any]]:
    for entry in manifest.entries:
        yield {"key": entry.key, "size_bytes": entry.size_bytes, "xxh3_128": entry.xxh3_128}


def _picture(spec: DatasetSpec, index: int) -> str | None:
    if spec.image_format == "bytes":
        return None
    # Imported here: only for clients that decode.
    from bucketbench.datagen.images import picture_of

    return picture_of(spec, index).tobytes().hex()
