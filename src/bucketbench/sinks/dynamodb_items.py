"""A run as items of DynamoDB: one for the run, one for each job, none larger than the service takes.

A number is text on its way there and is not rounded: DynamoDB keeps 38 digits, and a float has 17. What would make an
item too large, and the raw records, are compressed and cut into items of a partition of their own, so that a question
for a run's items is not answered with those.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bucketbench.sinks.document import JobDocument, RunDocument

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

    Item: TypeAlias = dict[str, AttributeValueTypeDef]

__all__ = [
    "PARTITION",
    "SORT",
    "fields_of",
    "item_bytes",
    "items_of_job",
    "items_of_run",
    "joined",
    "key",
    "part_of_job",
    "part_of_run",
    "records_partition",
    "spilled_part",
]

PARTITION: Final = "run_id"
SORT: Final = "part"

# Source: Amazon DynamoDB Developer Guide, "Constraints": 400 KB an item, names and values. The rest is for what a
# server may count otherwise.
_LARGEST_ITEM_BYTES: Final = 390 * 1024
_CHUNK_BYTES: Final = 380 * 1024
_GZIP: Final = 31  # of zlib: its largest window, and the frame of gzip
# Source: as above, "Data types": at most 38 digits, and positive numbers from 1E-130 to 9.99...E+125.
_DIGITS: Final = 38
_EXPONENTS: Final = range(-130, 126)
# Source: as above, "Constraints": 32 levels of lists and maps; the rest is for what a server may count otherwise.
_MOST_LEVELS: Final = 30

_KIND, _CHUNKS, _JOBS = "kind", "chunks", "jobs"
_SPILLED, _RECORDS = "spilled", "records"
_OWN: Final = frozenset({PARTITION, SORT, _KIND, _CHUNKS})


def part_of_run(started_at: str) -> str:
    """The sort key of a run. What begins like it but for the last word belongs to that run."""
    return f"{started_at}/run"


def part_of_job(started_at: str, number: int) -> str:
    """The sort key of a job."""
    return f"{started_at}/job/{number:06d}"


def records_partition(run_id: str) -> str:
    """The partition of what was compressed: raw records, and fields that made an item too large."""
    return f"{run_id}#records"


def spilled_part(part: str) -> str:
    """What the sort keys begin with that hold the fields of an item that made it too large."""
    return f"{part}/{_SPILLED}/"


def key(partition: str, part: str) -> Item:
    """The key of an item."""
    return {PARTITION: {"S": partition}, SORT: {"S": part}}


def items_of_job(run: RunDocument, job: JobDocument, *, raw_records: bool) -> Iterator[Item]:
    """The items of one job; that of its results comes last.

    Raises:
        ResultsError: its raw records cannot be read.
    """
    part, count = part_of_job(run.started_at, job.number), 0
    for item in (
        _chunk_items(run.run_id, f"{part}/{_RECORDS}/", _chunks(_json_of(job.records()))) if raw_records else ()
    ):
        yield item
        count += 1
    yield from _item(run.run_id, part, "job", job.results, {_RECORDS: count})


def items_of_run(run: RunDocument) -> Iterator[Item]:
    """The items of the run itself, to be written when those of its jobs are there."""
    yield from _item(
        run.run_id, part_of_run(run.started_at), "run", {**run.fields, _JOBS: len(run.jobs)}, {_RECORDS: 0}
    )


def fields_of(item: Mapping[str, Any]) -> tuple[str, dict[str, Any], Mapping[str, int]]:
    """The kind of an item (``run`` or ``job``), its content, and how many chunks of each kind belong to it."""
    values = {name: _value(attribute) for name, attribute in item.items()}
    content = {name: value for name, value in values.items() if name not in _OWN}
    return str(values.get(_KIND)), content, values.get(_CHUNKS) or {}


def joined(chunks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What was compressed and cut into the given items."""
    data = b"".join(bytes(item["data"]["B"]) for item in chunks)
    content: dict[str, Any] = json.loads(gzip.decompress(data)) if data else {}
    return content


def item_bytes(item: Mapping[str, Any]) -> int:
    """The size of an item, as DynamoDB counts it; of a number the most that it may take."""
    return sum(len(name.encode()) + _attribute_bytes(attribute) for name, attribute in item.items())


def _item(run_id: str, part: str, kind: str, content: Mapping[str, Any], chunks: Mapping[str, int]) -> Iterator[Item]:
    attributes = {name: _attribute(value) for name, value in content.items() if name not in _OWN}
    own = {**key(run_id, part), _KIND: _attribute(kind), _CHUNKS: _attribute({**chunks, _SPILLED: 0})}
    # What does not come back as it went in is kept beside its attribute, which questions can still be asked about.
    spilled = {name: content[name] for name in attributes if _value(attributes[name]) != content[name]}
    for name in [name for name, attribute in attributes.items() if _levels(attribute) > _MOST_LEVELS]:
        del attributes[name]
        spilled[name] = content[name]
    left = _LARGEST_ITEM_BYTES - item_bytes(own) - item_bytes(attributes)
    for name in sorted(attributes, key=lambda name: item_bytes({name: attributes[name]}), reverse=True):
        if left >= 0:
            break
        left += item_bytes({name: attributes.pop(name)})
        spilled[name] = content[name]
    if spilled:
        cut = list(_chunks([json.dumps(spilled, separators=(",", ":"))]))
        yield from _chunk_items(run_id, spilled_part(part), cut)
        own[_CHUNKS] = _attribute({**chunks, _SPILLED: len(cut)})
    yield {**own, **attributes}


def _chunk_items(run_id: str, prefix: str, chunks: Iterable[bytes]) -> Iterator[Item]:
    for number, data in enumerate(chunks):
        yield {**key(records_partition(run_id), f"{prefix}{number:04d}"), "data": {"B": data}}


def _json_of(files: Iterable[tuple[str, Iterable[str]]]) -> Iterator[str]:
    """An object of texts as JSON, piece by piece; nothing where there are none."""
    before = "{"
    for name, pieces in files:
        yield f'{before}{json.dumps(name)}:"'
        for piece in pieces:
            yield json.dumps(piece)[1:-1]
        yield '"'
        before = ","
    if before == ",":
        yield "}"


def _chunks(pieces: Iterable[str]) -> Iterator[bytes]:
    """A text, compressed and cut into what an item has room for; nothing where there is none.

    No time is in it, so that what is pushed again is equal.
    """
    compressor, data, is_empty = zlib.compressobj(wbits=_GZIP), bytearray(), True
    for piece in pieces:
        is_empty = False
        data += compressor.compress(piece.encode())
        while len(data) > _CHUNK_BYTES:
            yield bytes(data[:_CHUNK_BYTES])
            del data[:_CHUNK_BYTES]
    if not is_empty:
        data += compressor.flush()
        for start in range(0, len(data), _CHUNK_BYTES):
            yield bytes(data[start : start + _CHUNK_BYTES])


def _attribute(value: Any) -> AttributeValueTypeDef:
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int | float):
        number = Decimal(repr(value))
        fits = not number or (len(number.as_tuple().digits) <= _DIGITS and number.adjusted() in _EXPONENTS)
        return {"N": str(number)} if fits else {"S": str(number)}
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, Mapping):
        return {"M": {str(name): _attribute(item) for name, item in value.items()}}
    return {"L": [_attribute(item) for item in value]}


def _value(attribute: Mapping[str, Any]) -> Any:
    ((kind, value),) = attribute.items()
    if kind == "NULL":
        return None
    if kind == "N":  # 1E+2 may come back as 100, and 1.0 does as 1
        number = Decimal(value)
        return int(number) if number == number.to_integral_value() else float(number)
    if kind == "M":
        return {name: _value(item) for name, item in value.items()}
    return [_value(item) for item in value] if kind == "L" else value


def _levels(attribute: Mapping[str, Any]) -> int:
    ((kind, value),) = attribute.items()
    inner = value.values() if kind == "M" else value if kind == "L" else ()
    return 1 + max(map(_levels, inner), default=0)


def _attribute_bytes(attribute: Mapping[str, Any]) -> int:
    # Source: Amazon DynamoDB Developer Guide, "DynamoDB item sizes and formats".
    ((kind, value),) = attribute.items()
    if kind == "S":
        return len(value.encode())
    if kind == "B":
        return len(value)
    if kind == "N":
        return math.ceil(_DIGITS / 2) + 2
    if kind == "M":
        return 3 + sum(1 + len(name.encode()) + _attribute_bytes(item) for name, item in value.items())
    if kind == "L":
        return 3 + sum(1 + _attribute_bytes(item) for item in value)
    return 1
