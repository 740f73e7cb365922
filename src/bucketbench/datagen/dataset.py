"""A data set that is there when the call returns: found, completed or made.

Objects are made in runs of consecutive ones. A finished run leaves its entries beside the prefix, and when all runs
have, the manifest is written and the entries are removed; so an interrupted call loses at most the runs it was in, the
next one goes on from there, and the manifest's presence means that the data set is whole.
"""

from __future__ import annotations

import hashlib
import os
import signal
import tempfile
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager, suppress
from importlib.metadata import version
from itertools import islice
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from bucketbench.datagen.content import check_content
from bucketbench.datagen.errors import DatagenError
from bucketbench.datagen.location import DatasetLocation, store_config
from bucketbench.datagen.manifest import Manifest, ManifestEntry
from bucketbench.datagen.plan import PlannedObject, planned_objects
from bucketbench.datagen.production import Run, produce, start_process
from bucketbench.datagen.progress import Progress, ProgressReport
from bucketbench.datagen.spec import DatasetSpec
from bucketbench.locking import alone
from torchbucket.errors import NotFoundError, PermissionDeniedError, UnsupportedError
from torchbucket.store import Store

__all__ = ["ensure_dataset", "read_manifest"]

# Small enough that an interruption costs seconds, large enough that recording it costs little: one small write in 64.
_IMAGES_A_RUN: Final = 64
_BYTES_A_RUN: Final = 64 << 20  # of large samples fewer, so that all processes have some and little is made twice
_END_S: Final = 2.0  # what the processes get to abort their uploads, which a killed one leaves open
_SHARDS_A_RUN: Final = 1
_HERE_BYTES: Final = 8 << 20  # what the caller's own process makes, of a single run: another takes as long to start


def ensure_dataset(
    uri: str,
    spec: DatasetSpec,
    *,
    region: str | None = None,
    endpoint: str | None = None,
    path_style: bool | None = None,
    anonymous: bool = False,
    ca_bundle: str | None = None,
    progress: Progress | None = None,
    processes: int | None = None,
    lock_directory: Path | None = None,
) -> Manifest:
    """Make sure that a data set lies under an address, and return its manifest.

    What is there already and belongs to it is kept; what is missing, or has the wrong size, is made. The bytes depend
    on the spec alone. Calls of several processes of one host for the same address wait for one another, so that two
    sweeps that begin at once are fine. Must be called under ``if __name__ == "__main__"`` of a script, as everything
    that starts processes.

    Args:
        uri: ``s3://bucket/prefix`` or ``file:///directory/prefix``, with or without a slash at its end.
        spec: what to generate.
        region: the bucket's region; None lets the client find it.
        endpoint: URL of an S3-compatible service; None means the provider's own.
        path_style: whether the bucket goes into the URL's path; None means with a custom endpoint only.
        anonymous: send unsigned requests.
        ca_bundle: PEM file of the certificates to trust.
        progress: called from this thread after each run, and once when nothing was missing.
        processes: how many processes make images; None means one a core, at most 16.
        lock_directory: where the file of its lock is while it lasts; None means the directory of temporary files.

    Raises:
        DatagenError: the bucket is missing or refuses, the address holds another data set or other objects, the spec
            cannot be met, or a process died. Nothing that was there before is overwritten or removed.
    """
    config = store_config(
        region=region, endpoint=endpoint, path_style=path_style, anonymous=anonymous, ca_bundle=ca_bundle
    )
    location = DatasetLocation.parse(uri, config)
    check_content(spec)
    with _locked(location, lock_directory), location.opened() as store:
        return _Dataset(store, location, spec).ensure(progress, processes or min(os.cpu_count() or 1, 16))


def read_manifest(
    uri: str,
    *,
    region: str | None = None,
    endpoint: str | None = None,
    path_style: bool | None = None,
    anonymous: bool = False,
    ca_bundle: str | None = None,
) -> Manifest:
    """Read the manifest of the data set under an address; arguments as of ``ensure_dataset``.

    Raises:
        DatagenError: there is none, or it cannot be read.
    """
    config = store_config(
        region=region, endpoint=endpoint, path_style=path_style, anonymous=anonymous, ca_bundle=ca_bundle
    )
    location = DatasetLocation.parse(uri, config)
    with location.opened() as store:
        manifest = _stored_manifest(store, location)
    if manifest is None:
        raise DatagenError(
            f"{location.uri} has no manifest at {location.address_of(location.manifest_key)}: "
            f"generate the data set with `bucketbench datagen --uri {location.uri}`, or correct the address"
        )
    return manifest


class _Dataset:
    """One call's view of a data set: what is planned, what is there, what is left to do."""

    def __init__(self, store: Store, location: DatasetLocation, spec: DatasetSpec) -> None:
        self._store = store
        self._location = location
        self._spec = spec
        self._runs = list(_runs(spec))
        self._planned = {planned.key: planned for run in self._runs for planned in run.objects}

    def ensure(self, progress: Progress | None, processes: int) -> Manifest:
        stored = _stored_manifest(self._store, self._location)
        if stored is not None and stored.spec != self._spec:
            raise self._other_data_set(stored.spec)
        recorded = self._recorded() if stored is None else {entry.key: entry for entry in stored.entries}
        present = self._present(is_new=stored is None and not recorded)
        finished: dict[int, list[ManifestEntry]] = {}
        for run in self._runs:
            if all(planned.key in recorded and planned.key in present for planned in run.objects):
                finished[run.number] = [recorded[planned.key] for planned in run.objects]
        tally = _Tally(progress, self._planned.values(), found=finished.values())
        tally.report()
        if len(finished) == len(self._runs) and stored is not None:
            return stored
        self._make(finished, tally, processes)
        entries = tuple(entry for run in self._runs for entry in finished[run.number])
        made_with = {name: version(name) for name in ("numpy", "pillow")}
        manifest = Manifest(spec=self._spec, entries=entries, made_with=made_with)
        self._store.write(self._location.manifest_key, manifest.to_bytes())
        for info in list(self._store.list(self._location.parts_prefix)):
            self._store.delete(info.key)
        return manifest

    def _recorded(self) -> dict[str, ManifestEntry]:
        """The entries that finished runs of an interrupted call left."""
        entries: dict[str, ManifestEntry] = {}
        for info in list(self._store.list(self._location.parts_prefix)):
            source = self._location.address_of(info.key)
            part = Manifest.from_bytes(bytes(self._store.read(info.key).data), source=source)
            if part.spec != self._spec:
                raise self._other_data_set(part.spec)
            entries.update((entry.key, entry) for entry in part.entries)
        return entries

    def _present(self, *, is_new: bool) -> set[str]:
        """The keys of planned objects that are there with their right size; raise where foreign ones are.

        An object of a planned name and another size is foreign too where no call has begun this data set before.
        """
        present: set[str] = set()
        for info in self._store.list(self._location.prefix):
            planned = self._planned.get(info.key.removeprefix(self._location.prefix))
            if planned is None or (is_new and planned.size_bytes != info.size_bytes):
                raise DatagenError(
                    f"{self._location.uri} holds objects that do not belong to the data set, such as {info.key!r} of "
                    f"{info.size_bytes} bytes; nothing was changed. Choose another prefix, or remove them first"
                )
            if planned.size_bytes == info.size_bytes:
                present.add(planned.key)
        return present

    def _make(self, finished: dict[int, list[ManifestEntry]], tally: _Tally, processes: int) -> None:
        """Make the runs that are not finished and add them, recording each as it ends."""
        todo = [run for run in self._runs if run.number not in finished]
        if not todo:
            return
        self._clear_abandoned()
        with closing(_produced(self._location, self._spec, todo, processes=min(processes, len(todo)))) as produced:
            for run, entries in produced:
                part = Manifest(spec=self._spec, entries=tuple(entries))
                self._store.write(f"{self._location.parts_prefix}{run.number:09d}.jsonl", part.to_bytes())
                finished[run.number] = entries
                tally.add(entries)
                tally.report()

    def _clear_abandoned(self) -> None:
        """Remove what a killed call had begun to write: open uploads in a bucket, temporary files in a directory."""
        for prefix in (self._location.prefix, self._location.parts_prefix):
            # Who may write need not be allowed to list uploads; then a bucket's own rules have to remove them.
            with suppress(PermissionDeniedError, UnsupportedError, NotFoundError):
                for upload in list(self._store.list_uploads(prefix)):
                    self._store.abort_upload(upload)

    def _other_data_set(self, other: DatasetSpec) -> DatagenError:
        here, asked = other.to_json(), self._spec.to_json()
        differences = ", ".join(
            f"{name} {here[name]!r}, not {asked[name]!r}" for name in asked if here[name] != asked[name]
        )
        return DatagenError(
            f"{self._location.uri} holds another data set: {differences}. Nothing was changed; choose another prefix, "
            f"ask for the same data set, or remove it with {self._location.address_of(self._location.manifest_key)}"
        )


class _Tally:
    """What is done, added up as runs end: summed anew after each of many runs it would grow with their square."""

    def __init__(
        self,
        progress: Progress | None,
        planned: Iterable[PlannedObject],
        *,
        found: Iterable[Sequence[ManifestEntry]],
    ) -> None:
        self._progress = progress
        self._objects_total = self._bytes_total = 0
        for item in planned:
            self._objects_total += 1
            self._bytes_total += item.size_bytes
        self._objects_done = self._bytes_done = 0
        for entries in found:
            self.add(entries)
        self._objects_found = self._objects_done

    def add(self, entries: Sequence[ManifestEntry]) -> None:
        """Count a run's objects as done."""
        self._objects_done += len(entries)
        self._bytes_done += sum(entry.size_bytes for entry in entries)

    def report(self) -> None:
        """Tell the caller's progress how far it is."""
        if self._progress is None:
            return
        self._progress(
            ProgressReport(
                objects_done=self._objects_done,
                objects_total=self._objects_total,
                bytes_done=self._bytes_done,
                bytes_total=self._bytes_total,
                objects_found=self._objects_found,
            )
        )


def _runs(spec: DatasetSpec) -> Iterator[Run]:
    objects = planned_objects(spec)
    images = max(1, min(_IMAGES_A_RUN, _BYTES_A_RUN // spec.sample_size_bytes))
    length = _SHARDS_A_RUN if spec.is_sharded else images
    number = 0
    while run := tuple[PlannedObject, ...](islice(objects, length)):
        yield Run(number=number, objects=run)
        number += 1


def _produced(
    location: DatasetLocation, spec: DatasetSpec, runs: Sequence[Run], *, processes: int
) -> Generator[tuple[Run, list[ManifestEntry]], None, None]:
    """Make runs on several processes, or a small one alone in this, and yield each as it ends."""
    if len(runs) == 1 and sum(planned.size_bytes for planned in runs[0].objects) <= _HERE_BYTES:
        yield runs[0], produce(location, spec, runs[0])
        return
    context = get_context("spawn")  # a fork would copy the store's threads and locks in whatever state they are
    ending, others = context.Event(), set(active_children())
    with ProcessPoolExecutor(processes, context, start_process, (ending,)) as pool:
        waiting = iter(runs)
        going: dict[Future[list[ManifestEntry]], Run] = {}
        try:
            while True:
                # Two a process are enough to keep all busy; a plan of millions need not be in the queue.
                with _interruption_held():
                    for run in islice(waiting, 2 * processes - len(going)):
                        going[pool.submit(produce, location, spec, run)] = run
                if not going:
                    return
                for future in wait(going, return_when=FIRST_COMPLETED).done:
                    yield going.pop(future), future.result()
        except BrokenProcessPool as error:
            raise DatagenError(
                f"a process that was making {location.uri} died (killed, or out of memory); what was finished is kept: "
                f"run the same again, with fewer processes if memory is short"
            ) from error
        except BaseException:
            ending.set()
            pool.shutdown(wait=False, cancel_futures=True)
            _end(set(active_children()) - others)
            raise


@contextmanager
def _interruption_held() -> Iterator[None]:
    """Let SIGINT wait for the end of the block. Processes that are spawned in it are born without it: until they ignore
    it themselves, a terminal's Ctrl-C would have each of them write a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(processes: Collection[BaseProcess]) -> None:
    """Wait for processes that were told to end, and kill those that take long: an image of 64 MiB takes seconds."""
    until_s = time.monotonic() + _END_S
    for process in processes:
        process.join(max(0.0, until_s - time.monotonic()))
        process.kill()


def _stored_manifest(store: Store, location: DatasetLocation) -> Manifest | None:
    source = location.address_of(location.manifest_key)
    try:
        content = bytes(store.read(location.manifest_key).data)
    except NotFoundError:
        # Either the manifest or the bucket is missing; listing tells, since only the latter makes it fail.
        next(iter(store.list(location.parts_prefix)), None)
        return None
    return Manifest.from_bytes(content, source=source)


@contextmanager
def _locked(location: DatasetLocation, directory: Path | None) -> Iterator[None]:
    """Hold the host-wide lock of an address, endpoint left out: two local servers may serve one directory."""
    # All users of the machine may have one folder of temporary files.
    folder, owner = (
        (Path(tempfile.gettempdir()), f"bucketbench-{os.getuid()}-") if directory is None else (directory, "")
    )
    name = f"{owner}datagen-{hashlib.sha256(location.uri.encode()).hexdigest()[:32]}.lock"
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(alone(folder / name, waits=True))
        except OSError as error:
            raise DatagenError(f"cannot lock the data set {location.uri} in {folder}: {error}") from error
        yield
