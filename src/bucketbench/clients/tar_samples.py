"""The samples in a tar shard by Python's own ``tarfile``, and an image of one as a tensor: for clients with neither."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

__all__ = ["MemberSample", "decoded_image", "decoded_sample", "grouped", "is_shard", "samples_of_stream"]

MemberSample = tuple[str, dict[str, Any]]
"""What a data set over the samples of shards yields: the key that members share, and their content by extension."""


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


def is_shard(key: str) -> bool:
    """Whether an object is a tar shard, by its name: what else lies under a prefix is left alone."""
    return key.endswith(".tar")


def samples_of_stream(shard: _Readable) -> Iterator[MemberSample]:
    """Read a shard from one end to the other, and yield its samples. Closed early, it stops reading."""
    # "r|": as a stream, since what comes over a network is not sought in.
    with tarfile.open(fileobj=shard, mode="r|") as archive:  # type: ignore[call-overload]  # a reader is enough for it

        def members() -> Iterator[tuple[str, bytes]]:
            for member in archive:
                content = archive.extractfile(member)
                if content is not None:
                    yield member.name, content.read()

        yield from grouped(members())


def grouped(members: Iterable[tuple[str, Any]]) -> Iterator[MemberSample]:
    """Join members that stand one after another and share a name up to its first dot to samples."""
    current: str | None = None
    fields: dict[str, Any] = {}
    for name, content in members:
        folder, slash, base = name.rpartition("/")
        stem, _, extension = base.partition(".")
        key = f"{folder}{slash}{stem}"
        if key != current and current is not None:
            yield current, fields
            fields = {}
        current = key
        fields[extension] = content
    if current is not None:
        yield current, fields


def decoded_image(content: Any) -> Any:
    """An image file as a ``uint8`` tensor of shape (3, height, width), decoded by Pillow in its full size."""
    import numpy as np
    import torch
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        pixels = np.array(image.convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1)


def decoded_sample(sample: MemberSample) -> tuple[str, Any, int]:
    """The key of a sample, its first member as a tensor, and its label."""
    key, fields = sample
    return key, decoded_image(next(iter(fields.values()))), int(bytes(fields["cls"]))
