"""What a sample of a tar shard has beside its image: its label, and what is known of it."""

from __future__ import annotations

import json

from bucketbench.datagen.images import resolution_of
from bucketbench.datagen.randomness import Purpose, SampleRandom
from bucketbench.datagen.spec import DatasetSpec

__all__ = ["label_of", "members_beside", "name_of"]


def name_of(index: int) -> str:
    """The name of sample ``index``, without an extension: the key of a single object, or of a sample in a shard."""
    return f"{index:09d}"


def label_of(spec: DatasetSpec, index: int) -> int:
    """The class of sample ``index``, in [0, ``spec.num_classes``)."""
    return SampleRandom(seed=spec.seed, index=index, purpose=Purpose.LABEL).below(spec.num_classes)


def members_beside(spec: DatasetSpec, *, index: int, size_bytes: int) -> dict[str, bytes]:
    """The content of each member that sample ``index`` has beside its image of ``size_bytes``, by extension."""
    return {extension: _content(spec, extension, index, size_bytes) for extension in spec.extensions}


def _content(spec: DatasetSpec, extension: str, index: int, size_bytes: int) -> bytes:
    label = label_of(spec, index)
    if extension == "cls":
        return str(label).encode()
    known: dict[str, str | int] = {"key": name_of(index), "label": label}
    if spec.image_format != "bytes":
        known["width"], known["height"] = resolution_of(spec, size_bytes)
    return json.dumps(known).encode()
