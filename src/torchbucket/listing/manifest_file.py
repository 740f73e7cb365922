"""The Parquet file of a manifest: the columns key, size_bytes and version, and a description beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Final

from torchbucket.errors import TorchbucketError
from torchbucket.listing.blocks import UNKNOWN_SIZE, Block
from torchbucket.listing.columns import Listing
from torchbucket.public import public_in

__all__ = ["SCHEMA_VERSION", "ManifestError", "decode", "encode"]

SCHEMA_VERSION: Final = 1
"""Version of the file's columns and description; a change of either raises it."""

_DESCRIPTION: Final = b"torchbucket.manifest"
_COLUMNS: Final = ("key", "size_bytes", "version")

# Rows in memory as Python objects at once, while a file of millions is written or read.
_BATCH_ROWS: Final = 1 << 16

# Names that ascend differ in their last characters, so each is kept as its difference from the one before.
# Source: Apache Parquet, "Encodings": DELTA_BYTE_ARRAY (incremental), DELTA_BINARY_PACKED.
_ENCODINGS: Final = {"key": "DELTA_BYTE_ARRAY", "size_bytes": "DELTA_BINARY_PACKED", "version": "DELTA_BYTE_ARRAY"}


@public_in("torchbucket.listing")
class ManifestError(TorchbucketError, ValueError):
    """The file is no manifest that this version reads; the message says why and what to do."""


def encode(listing: Listing, described: Mapping[str, str]) -> bytes:
    """The file that holds a listing.

    Args:
        listing: the objects.
        described: texts that ``decode`` returns.
    """
    arrow, parquet = _pyarrow()
    schema = arrow.schema(
        [
            arrow.field("key", arrow.string(), nullable=False),
            arrow.field("size_bytes", arrow.int64()),
            arrow.field("version", arrow.string()),
        ],
        metadata={_DESCRIPTION: json.dumps({**described, "schema_version": SCHEMA_VERSION, "count": len(listing)})},
    )
    sink = arrow.BufferOutputStream()
    with parquet.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        use_dictionary=False,
        column_encoding=_ENCODINGS,
        write_page_checksum=True,
    ) as writer:
        for start in range(0, len(listing), _BATCH_ROWS):
            writer.write_batch(_batch(arrow, schema, listing, start, min(start + _BATCH_ROWS, len(listing))))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _batch(arrow: ModuleType, schema: Any, listing: Listing, start: int, stop: int) -> Any:
    sizes = listing.sizes_bytes[start:stop]
    versions = [listing.version(position) for position in range(start, stop)]
    columns = [
        arrow.array(listing.keys[start:stop], arrow.string()),
        arrow.array(sizes, arrow.int64(), mask=sizes == UNKNOWN_SIZE),
        arrow.array(versions, arrow.string()),
    ]
    return arrow.record_batch(columns, schema=schema)


def decode(data: bytes | bytearray | memoryview, uri: str) -> tuple[Listing, dict[str, str]]:
    """Read a file that ``encode`` made: the listing, and what described it.

    Args:
        data: the whole file.
        uri: its address, for messages.

    Raises:
        ManifestError: it is another file, of another version, cut short or damaged.
    """
    arrow, parquet = _pyarrow()
    try:
        file = parquet.ParquetFile(arrow.BufferReader(data), page_checksum_verification=True)
        described = _described(file.schema_arrow.metadata or {}, uri)
        names = tuple(file.schema_arrow.names)
        if names != _COLUMNS:
            raise _refused(uri, f"expected the columns {', '.join(_COLUMNS)}; found {', '.join(names)}")
        listing = Listing.joined(list(_blocks(file)))
    except ManifestError:
        raise
    except (arrow.ArrowException, OSError, ValueError, TypeError) as error:
        raise _refused(uri, f"{len(data)} bytes that are no whole Parquet file of a manifest ({error})") from error
    count = described.pop("count")
    if count != len(listing):
        raise _refused(uri, f"{len(listing)} objects in a manifest of {count}")
    return listing, {name: str(value) for name, value in described.items()}


def _described(metadata: Mapping[bytes, bytes], uri: str) -> dict[str, Any]:
    try:
        described = json.loads(metadata[_DESCRIPTION])
        version = described.pop("schema_version")
        _ = described["count"]
    except (KeyError, ValueError, TypeError, AttributeError):
        raise _refused(uri, "a Parquet file that no manifest is in") from None
    if version != SCHEMA_VERSION:
        raise ManifestError(
            f"read {uri}: the manifest is of version {version!r} and this torchbucket reads version {SCHEMA_VERSION}; "
            "make it again with this version, or use the one that made it"
        )
    return dict(described)


def _blocks(file: Any) -> Iterator[Block]:
    for batch in file.iter_batches(batch_size=1000):
        keys, sizes, versions = (batch.column(index).to_pylist() for index in range(len(_COLUMNS)))
        if any(size is not None and size < 0 for size in sizes):
            raise ValueError("an object has a negative size")
        if keys:
            yield Block.of(keys, [UNKNOWN_SIZE if size is None else size for size in sizes], versions)


def _refused(uri: str, what: str) -> ManifestError:
    return ManifestError(f"read {uri}: found {what}; expected what `torchbucket manifest PREFIX FILE` writes")


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "manifests need pyarrow, which is not installed; install it with: pip install 'torchbucket[parquet]'"
        ) from error
    return pyarrow, pyarrow.parquet
