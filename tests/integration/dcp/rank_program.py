"""One rank of a training: ``rank_program.py RANK WORLD_SIZE RENDEZVOUS_FILE ENDPOINT [ACTION URI]…``; what it finds of
each action is printed as a line of JSON behind `found: `."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import StorageReader
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, AsyncSaveResponse
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import torchbucket.dcp.reader
import torchbucket.dcp.writer
from torchbucket import IterableDataset, StoreConfig
from torchbucket.dcp import AsyncSaver, BucketStorageReader, BucketStorageWriter, DatasetState
from torchbucket.dcp.ranks import Ranks

SEED = 3.0
LARGE_TENSORS = 10


class Rank:
    """What one rank does."""

    def __init__(self, mesh: DeviceMesh, uri: str, config: StoreConfig) -> None:
        self.mesh = mesh
        self.uri = uri
        self.config = config

    def state(self, seed: float) -> dict[str, Any]:
        """The same of every world size: sharded evenly, unevenly, with nothing for some, by columns, and replicated."""

        def dealt(tensor: torch.Tensor, placement: Any) -> DTensor:
            return distribute_tensor(tensor + seed, self.mesh, [placement])

        return {
            "even": dealt(torch.arange(240.0).reshape(24, 10), Shard(0)),
            "six": dealt(torch.arange(6.0), Shard(0)),
            "one row": dealt(torch.arange(5.0).reshape(1, 5), Shard(0)),
            "columns": dealt(torch.arange(84.0).reshape(7, 12), Shard(1)),
            "replica": dealt(torch.arange(250_000.0), Replicate()),
            "plain": torch.arange(250_000.0) + seed,
            "half": torch.arange(50.0).to(torch.bfloat16) + seed,
            "scalar": torch.tensor(seed),
            "epoch": int(seed),
        }

    def save(self) -> None:
        dcp.save(self.state(SEED), storage_writer=BucketStorageWriter(self.uri, config=self.config))

    def load(self, **options: Any) -> list[str]:
        """The names of what is not loaded as it was saved."""
        return self._load(BucketStorageReader(self.uri, config=self.config, **options))

    def _load(self, reader: StorageReader) -> list[str]:
        found, wanted = self.state(-1.0), self.state(SEED)
        found["half"] = found["half"].to(torch.float32)  # another dtype than was saved
        dcp.load(found, storage_reader=reader)
        return [name for name, value in found.items() if not _same(value, wanted[name])]

    def _large(self, seed: float) -> dict[str, Any]:
        tensors = (torch.arange(1 << 19, dtype=torch.float32) + number + seed for number in range(LARGE_TENSORS))
        return {
            f"layer.{number}": distribute_tensor(tensor, self.mesh, [Shard(0)]) for number, tensor in enumerate(tensors)
        }

    def save_large(self) -> None:
        dcp.save(self._large(SEED), storage_writer=BucketStorageWriter(self.uri, config=self.config))

    def load_large(self, count: int) -> list[str]:
        found, wanted = (dict(itertools.islice(self._large(seed).items(), count)) for seed in (-1.0, SEED))
        dcp.load(found, storage_reader=BucketStorageReader(self.uri, config=self.config))
        return [name for name, value in found.items() if not _same(value, wanted[name])]

    def load_once(self) -> list[str]:
        return self.load(read_once=True)

    def load_metadata_once(self) -> list[str]:
        return self.load(metadata_once=True)

    def told_of_failures(self) -> list[str]:
        """What this rank is told where only one does not get as far as to the others, by what it was doing."""
        return [
            _told(lambda: Ranks(dist.group.WORLD).all_do(_interrupted if dist.get_rank() else int, "was to count")),
            _told(lambda: Ranks(dist.group.WORLD).first_does(lambda: lambda: None, "was to tell")),
            _told(self._load_where_the_first_may_not_read),
            _told(self._load_where_the_second_fails_to_read),
        ]

    def _load_where_the_first_may_not_read(self) -> list[str]:
        """The metadata, which it reads for all."""
        reader = BucketStorageReader(self.uri, config=self.config, metadata_once=True)
        if dist.get_rank():
            return self._load(reader)
        with patch.object(type(reader._directory.store), "read", _no_room):
            return self._load(reader)

    def _load_where_the_second_fails_to_read(self) -> list[str]:
        """The metadata of all ranks, where there is some of its own, too."""
        return self._load(_Failing(self.uri, config=self.config))

    def save_where_one_cannot_copy(self) -> list[str]:
        """What is told, and what of the next save is not loaded as it was saved."""
        with AsyncSaver() as saver:
            state = self.state(-2.0)
            if dist.get_rank() == 1:
                state["plain"].untyped_storage().resize_(0)
            told = _told(lambda: saver.save(state, BucketStorageWriter(self.uri, config=self.config)))
            if dist.get_rank() == 1:  # of a failure that no other rank has heard of
                saver._last = AsyncSaveResponse(*map(_failed, range(2)))
            told += _told(lambda: saver.save(self.state(-3.0), BucketStorageWriter(self.uri, config=self.config)))
            saver.save(self.state(SEED), BucketStorageWriter(self.uri, config=self.config))
        return [told, *self.load()]

    def load_once_by_one_that_fails(self) -> list[str]:
        with _failing_on(1, torchbucket.dcp.reader, "read_all"):
            return self.load(read_once=True)

    def save_in_thread(self) -> list[str]:
        return self._save_in_background(AsyncCheckpointerType.THREAD)

    def save_in_process(self) -> list[str]:
        return self._save_in_background(AsyncCheckpointerType.PROCESS)

    def _stream(self) -> IterableDataset[str]:
        return IterableDataset.from_prefix(
            "s3://data/train/", config=self.config, transform=lambda reader: reader.key, shuffle=True, seed=7
        )

    def read_and_save(self, count: int) -> list[str]:
        stream = self._stream()
        seen = list(itertools.islice(stream, count * (dist.get_rank() + 1)))
        state = {"data": DatasetState(stream), "weight": torch.ones(3)}
        dcp.save(state, storage_writer=BucketStorageWriter(self.uri, config=self.config))
        return seen

    def resume_and_read(self) -> list[str]:
        stream = self._stream()
        state = {"data": DatasetState(stream), "weight": torch.zeros(3)}
        dcp.load(state, storage_reader=BucketStorageReader(self.uri, config=self.config))
        return list(stream)

    def save_where_one_cannot_tell(self) -> None:
        stream: Any = self._stream()
        if dist.get_rank() == 1:
            stream = SimpleNamespace(state_dict=_no_room, load_state_dict=None)
        dcp.save({"data": DatasetState(stream)}, storage_writer=BucketStorageWriter(self.uri, config=self.config))

    def _save_in_background(self, kind: AsyncCheckpointerType) -> list[str]:
        state = self.state(SEED)
        future: Any = dcp.async_save(
            state,
            storage_writer=BucketStorageWriter(self.uri, config=self.config),
            process_group=dist.new_group(backend="gloo"),
            async_checkpointer_type=kind,
        )
        for value in state.values():
            if isinstance(value, DTensor):
                value.to_local().zero_()  # what is saved is what was there at the call
        future.result()
        return self.load()

    def save_by_saver_in_thread(self) -> list[str]:
        return self._save_by_saver(process=False)

    def save_by_saver_in_process(self) -> list[str]:
        return self._save_by_saver(process=True)

    def _save_by_saver(self, *, process: bool) -> list[str]:
        with AsyncSaver(process=process) as saver:
            for seed in (1.0, 2.0, SEED):
                state = self.state(seed)
                saver.save(state, BucketStorageWriter(self.uri, config=self.config))
                for value in state.values():
                    if isinstance(value, DTensor):
                        value.to_local().zero_()
        return self.load()

    def save_by_saver_where_one_fails(self, failing: int) -> list[str]:
        """What each way of hearing of the failure raises, on this rank."""
        told = []
        writer = BucketStorageWriter(self.uri, config=self.config)
        kept, fails = torchbucket.dcp.writer.write_file, dist.get_rank() == failing
        saver = AsyncSaver()
        for wait in (saver.wait, lambda: saver.save(self.state(SEED), writer), saver.close):
            torchbucket.dcp.writer.write_file = _no_room if fails else kept
            saved = saver.save(self.state(SEED), writer)
            with contextlib.suppress(dcp.CheckpointException):
                saved.upload_completion.result()
            torchbucket.dcp.writer.write_file = kept
            try:
                wait()
            except dcp.CheckpointException as error:
                told.append(str(error.failures[failing][0]))
        return told

    def grown_by_saves(self, count: int) -> list[int]:
        """By how many bytes the process has grown after each of so many saves in the background."""
        state = {f"{dist.get_rank()}.{number}": torch.ones(1 << 20) for number in range(16)}
        grown = []
        with AsyncSaver() as saver:
            for number in range(count):
                saver.save(state, BucketStorageWriter(f"{self.uri}-{number % 2}", config=self.config))
                saver.wait()
                with Path("/proc/self/statm").open() as file:
                    grown.append(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
        return [size - grown[0] for size in grown]

    def save_while_one_fails(self, failing: int) -> None:
        with _failing_on(failing, torchbucket.dcp.writer, "write_file"):
            self.save()

    def save_while_one_dies(self, dying: int) -> None:
        if dist.get_rank() == dying:
            torchbucket.dcp.writer.write_file = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        self.save()


def _failing_on(rank: int, module: ModuleType, name: str) -> contextlib.AbstractContextManager[object]:
    return patch.object(module, name, _no_room) if dist.get_rank() == rank else contextlib.nullcontext()


class _Failing(BucketStorageReader):
    """Once, on one rank."""

    def read_metadata(self, *arguments: Any, **options: Any) -> Any:
        if dist.get_rank() == 1 and not options:
            with patch.object(torchbucket.dcp.reader, "read_metadata", _no_room):
                return super().read_metadata(*arguments, **options)
        return super().read_metadata(*arguments, **options)


def _told(work: Callable[[], Any]) -> str:
    try:
        return str(work())
    except dcp.CheckpointException as error:
        return str({rank: f"{type(cause[0]).__name__}: {cause[0]}" for rank, cause in error.failures.items()})
    except BaseException as error:  # noqa: BLE001  # it is told
        return f"{type(error).__name__}: {error}"


def _failed(_: int) -> Future[None]:
    future: Future[None] = Future()
    future.set_exception(OSError("no answer"))
    return future


def _interrupted() -> int:
    raise KeyboardInterrupt


def _no_room(*_: Any) -> Any:
    raise OSError("no room")


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(found, DTensor):
        return torch.equal(found.full_tensor(), wanted.full_tensor())
    if isinstance(found, torch.Tensor):
        return torch.equal(found, wanted.to(found.dtype))
    return bool(found == wanted)


def _found(act: Callable[..., Any], *arguments: int) -> Any:
    try:
        return act(*arguments)
    except dcp.CheckpointException as error:
        return {str(failed): f"{type(cause[0]).__name__}: {cause[0]}" for failed, cause in error.failures.items()}
    except Exception as error:  # noqa: BLE001  # it is told
        return f"{type(error).__name__}: {error}"


def main(kind: type[Rank] = Rank) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rank, world_size = int(sys.argv[1]), int(sys.argv[2])
    rendezvous, endpoint, *words = sys.argv[3:]
    dist.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world_size, timeout=timedelta(seconds=60)
    )
    # A second request for a late read would count among the bytes that are sent.
    config = StoreConfig(endpoint=endpoint, anonymous=True, hedge_share=0)
    mesh = init_device_mesh("cpu", (world_size,))
    for action, uri in zip(words[::2], words[1::2], strict=True):
        name, *arguments = action.split()
        act: Callable[..., Any] = getattr(kind(mesh, uri, config), name)
        print(f"found: {json.dumps(_found(act, *map(int, arguments)))}", flush=True)
        if name == "save_while_one_dies":
            os._exit(0)  # a group that has lost a rank cannot be left
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()
    if not any("process" in word for word in words[::2]):  # which has a process to end
        os._exit(0)  # gloo's threads can outlast their group, and abort an interpreter that ends


if __name__ == "__main__":  # which a process that saves in the background imports
    main()
