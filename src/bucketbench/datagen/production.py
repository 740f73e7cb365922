"""Making a run of consecutive objects: the work of one process at a time, repeatable at will."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import tarfile
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from typing import Final, cast

import xxhash

from bucketbench.datagen.content import sample_content
from bucketbench.datagen.errors import DatagenError
from bucketbench.datagen.location import DatasetLocation
from bucketbench.datagen.manifest import ManifestEntry, ManifestMember
from bucketbench.datagen.members import members_beside
from bucketbench.datagen.plan import PlannedObject
from bucketbench.datagen.spec import DatasetSpec
from torchbucket.store import ObjectWriter, Store

__all__ = ["Run", "produce", "start_process"]

# Writes in flight while the next image is encoded. Source: at 20 ms a write and 6 ms an image four would do; the rest
# covers slower networks, at a cost of 16 images of memory.
_WRITES_IN_FLIGHT: Final = 16
_BYTES_IN_FLIGHT: Final = 64 << 20  # of large samples fewer, so that memory does not grow with them
_TAR_BUFFER_BYTES: Final = 1 << 20

_ending: Event | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Consecutive objects of a data set, made by one process and recorded together."""

    number: int
    objects: tuple[PlannedObject, ...]


def start_process(ending: Event) -> None:
    """Make this process end with its parent, however that ends, and leave Ctrl-C to the parent.

    Called first in each process of a pool: without it one would outlive a killed parent, waiting for work for ever.

    Args:
        ending: set by the parent when nothing of what is made is wanted any more.
    """
    global _ending
    _ending = ending
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.join,), daemon=True, name="datagen-parent-watch").start()


def _check_wanted() -> None:
    if _ending is not None and _ending.is_set():
        raise DatagenError("the making of the data set was ended")


def _end_after(wait_for_parent: Callable[[], None]) -> None:
    wait_for_parent()
    os._exit(1)


def produce(location: DatasetLocation, spec: DatasetSpec, run: Run) -> list[ManifestEntry]:
    """Make the objects of a run, write them, and return their entries in order.

    Objects appear whole or not at all. Called again, it makes the same bytes.

    Raises:
        DatagenError: an image cannot be made, or an object cannot be written, or it is wanted no more.
    """
    with location.opened() as store:
        if run.objects[0].is_shard:
            return [_write_shard(store, location, spec, planned) for planned in run.objects]
        return _write_images(store, location, spec, run)


def _write_images(store: Store, location: DatasetLocation, spec: DatasetSpec, run: Run) -> list[ManifestEntry]:
    entries: list[ManifestEntry] = []
    in_flight: dict[Future[object], int] = {}
    with ThreadPoolExecutor(_WRITES_IN_FLIGHT, thread_name_prefix="datagen-write") as threads:
        try:
            for planned in run.objects:
                _check_wanted()
                (sample,) = planned.samples
                while in_flight and (
                    len(in_flight) >= _WRITES_IN_FLIGHT
                    or sum(in_flight.values()) + sample.size_bytes > _BYTES_IN_FLIGHT
                ):
                    _settle(in_flight)
                content = sample_content(spec, index=sample.index, size_bytes=sample.size_bytes)
                entries.append(_entry(planned, xxhash.xxh3_128_hexdigest(content), len(content)))
                in_flight[threads.submit(store.write, location.prefix + planned.key, content)] = len(content)
            while in_flight:
                _settle(in_flight)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return entries


def _settle(in_flight: dict[Future[object], int]) -> None:
    """Wait for at least one write, raise what made it fail, and leave those that go on."""
    done, _ = wait(in_flight, return_when=FIRST_COMPLETED)
    for write in done:
        del in_flight[write]
        write.result()


def _write_shard(store: Store, location: DatasetLocation, spec: DatasetSpec, planned: PlannedObject) -> ManifestEntry:
    members: list[ManifestMember] = []
    with store.open_writer(location.prefix + planned.key) as writer:
        sink = _HashingSink(writer)
        # A stream ("w|") never seeks. Members have no time and no owner but the defaults, so the bytes never vary.
        with tarfile.open(
            fileobj=cast(io.BufferedIOBase, sink), mode="w|", format=tarfile.USTAR_FORMAT, bufsize=_TAR_BUFFER_BYTES
        ) as archive:
            for sample in planned.samples:
                _check_wanted()
                image = sample_content(spec, index=sample.index, size_bytes=sample.size_bytes)
                beside = members_beside(spec, index=sample.index, size_bytes=sample.size_bytes)
                for extension, content in {spec.extension: image, **beside}.items():
                    members.append(_add_member(archive, f"{sample.name}.{extension}", content))
        return _entry(planned, sink.hexdigest(), sink.size_bytes, tuple(members))


def _add_member(archive: tarfile.TarFile, name: str, content: bytes) -> ManifestMember:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
    return ManifestMember(name=name, size_bytes=len(content), xxh3_128=xxhash.xxh3_128_hexdigest(content))


def _entry(
    planned: PlannedObject, xxh3_128: str, size_bytes: int, members: tuple[ManifestMember, ...] = ()
) -> ManifestEntry:
    if size_bytes != planned.size_bytes:
        raise AssertionError(f"{planned.key} was planned with {planned.size_bytes} bytes and came out as {size_bytes}")
    return ManifestEntry(key=planned.key, size_bytes=size_bytes, xxh3_128=xxh3_128, members=members)


class _HashingSink:
    """Passes what is written on to an object's writer, counted and hashed."""

    def __init__(self, writer: ObjectWriter) -> None:
        self._write: Callable[[bytes], int] = writer.write
        self._hash = xxhash.xxh3_128()
        self.size_bytes = 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size_bytes += len(data)
        return self._write(data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()
