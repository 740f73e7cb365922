"""Any number of objects joined into one, by requests that join a few each."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import wait

from torchbucket.errors import StoreError
from torchbucket.store.http.clean_up import remove_temporaries
from torchbucket.store.http.dialect import Dialect
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.temporary_names import temporary_key
from torchbucket.store.transport.body import Body
from torchbucket.store.transport.operation import Operation
from torchbucket.store.transport.transport import Transport

__all__ = ["compose_many"]


def compose_many(transport: Transport, dialect: Dialect, sources: Sequence[ObjectInfo], target_key: str) -> ObjectInfo:
    """Join objects in their order.

    More than the provider joins at once are joined in groups, side by side, into temporary objects, and those again,
    until one request can make the target: ``n`` sources take about ``n / (most - 1)`` requests. The temporaries are
    removed whatever happens. No sources make an object of no bytes.

    Raises:
        StoreError: the object that was made has another size than its sources had together.
    """
    if not sources:
        return transport.run(dialect.put_object(target_key, Body(()), dialect.upload_sum.of(()), condition=None))
    size_bytes = sum(source.size_bytes for source in sources)
    level, temporaries = list(sources), list[str]()
    try:
        while len(level) > dialect.most_sources:
            level = _joined(transport, dialect, level, target_key, temporaries)
        made = transport.run(dialect.compose_objects(level, target_key, condition=None))
    finally:
        remove_temporaries(transport, dialect, temporaries)
    if made.size_bytes != size_bytes:
        uri = dialect.address(target_key)
        raise StoreError(
            f"compose_object {uri}: the sources have {size_bytes} bytes together, the object that was made has "
            f"{made.size_bytes}; give the sizes and versions that a listing told",
            operation="compose_object",
            uri=uri,
        )
    return made


def _joined(
    transport: Transport, dialect: Dialect, level: list[ObjectInfo], target_key: str, temporaries: list[str]
) -> list[ObjectInfo]:
    """Join neighbours, as few as will do: the next level has ``most_sources`` times fewer, or just what fits."""
    most = dialect.most_sources
    operations: list[Operation[ObjectInfo]] = []
    following: list[ObjectInfo | Operation[ObjectInfo]] = []
    # Joining a group of `most` leaves `most - 1` fewer; the rest of a level that fits then is not touched.
    surplus = len(level) - most
    while level:
        size = max(1, min(most, surplus + 1))
        group, level = level[:size], level[size:]
        surplus -= len(group) - 1
        if len(group) == 1:
            following += group
            continue
        temporaries.append(temporary_key(target_key))
        operations.append(dialect.compose_objects(group, temporaries[-1], condition=None))
        following.append(operations[-1])
    transport.submit(operations)
    try:
        return [item if isinstance(item, ObjectInfo) else item.future.result() for item in following]
    except BaseException:
        # A temporary that appears after its removal would stay: wait until none is on its way.
        transport.drop(operations)
        wait([operation.future for operation in operations], timeout=60.0)
        for operation in operations:
            if operation.future.done():
                del operation.future  # An error keeps the frames that it passes, which must not keep it in turn.
        raise
