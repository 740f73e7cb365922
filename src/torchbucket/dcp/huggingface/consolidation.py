"""Consolidation: the parts of tensors that ranks have saved made into files of whole ones, within the bucket."""

from __future__ import annotations

import heapq
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch.distributed as dist

from torchbucket.config import StoreConfig
from torchbucket.dcp.directory import CheckpointDirectory
from torchbucket.dcp.files_found import checked_files
from torchbucket.dcp.huggingface.committing import BegunSave, begin_save
from torchbucket.dcp.huggingface.layout import FoundLayout, find_layout
from torchbucket.dcp.huggingface.making import PieceSums, make_file
from torchbucket.dcp.huggingface.names import SHARDED_NAME, checked_mapping
from torchbucket.dcp.huggingface.outputs import OutputFile, plan_outputs
from torchbucket.dcp.huggingface.pieces import read_pieces
from torchbucket.dcp.manifest import FileRecord
from torchbucket.dcp.ranks import Ranks
from torchbucket.errors import ConfigError
from torchbucket.public import public_in
from torchbucket.safetensors.places import TensorFile
from torchbucket.store.thread_pool import ThreadPool
from torchbucket.uri import Address

__all__ = ["check_thread_count", "consolidate", "consolidate_directory"]

_LARGEST_THREAD_COUNT = 256


@public_in("torchbucket.dcp")
def consolidate(
    uri: Address,
    shards_uri: Address | None = None,
    *,
    fqn_to_index_mapping: Mapping[str, int] | None = None,
    thread_count: int = 1,
    overwrite: bool = True,
    process_group: dist.ProcessGroup | None = None,
    config: StoreConfig | None = None,
) -> None:
    """Make files of whole tensors, which Hugging Face's loaders read, of the parts that ranks have saved.

    The parts are those of ``BucketHuggingFaceWriter(save_distributed=True)`` or of PyTorch's
    ``HuggingFaceStorageWriter``. Before anything is written, every header is read: a cut file, and parts that are not
    exactly all of a tensor, are named. S3 copies what lies together by itself; the rest is read and written in blocks
    of 8 MiB, some at a time, never a whole file. The index is published last, by one conditional request; an index that
    is there already is taken away first. The parts stay.

    Args:
        uri: the directory of the whole tensors.
        shards_uri: the directory of the parts; None means ``sharded`` in ``uri``.
        fqn_to_index_mapping: the number of its file for each tensor, from 1; None means what the names of the parts'
            files tell, and else one file.
        thread_count: how many files each process makes at the same time.
        overwrite: False refuses to consolidate to where a checkpoint is.
        process_group: ranks that share the work, file by file, all of which must call this; None means that this
            process does all of it.
        config: how to reach the bucket; None means ``StoreConfig()``.

    Raises:
        CheckpointError: the parts are not one checkpoint; a rank failed. There is no index then.
        StoreError: a read or a write failed.
        ConfigError: a wrong address or setting.
    """
    check_thread_count("thread_count", thread_count)
    mapping = checked_mapping(fqn_to_index_mapping)
    target = CheckpointDirectory.at(uri, config)
    source = target.below(SHARDED_NAME) if shards_uri is None else CheckpointDirectory.at(shards_uri, config)
    if source.uri == target.uri:
        raise ConfigError(f"shards_uri: another directory than that of the whole tensors; both are {source.uri}")
    consolidate_directory(
        source, target, mapping, thread_count=thread_count, overwrite=overwrite, ranks=Ranks(process_group)
    )


def check_thread_count(name: str, value: object) -> None:
    """Raise ``ConfigError`` unless it is a number of threads."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _LARGEST_THREAD_COUNT:
        raise ConfigError(f"{name}: 1 to {_LARGEST_THREAD_COUNT} files at a time; got {value!r}")


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be done.

    Args:
        files: the shards, of the versions that are read.
        outputs: the files to be made.
        known: the checksums of stored pieces.
    """

    files: Mapping[str, TensorFile]
    outputs: Sequence[OutputFile]
    known: PieceSums


def consolidate_directory(
    source: CheckpointDirectory,
    target: CheckpointDirectory,
    mapping: Mapping[str, int] | None,
    *,
    thread_count: int,
    overwrite: bool,
    ranks: Ranks,
    begun: BegunSave | None = None,
) -> None:
    """Consolidate; see ``consolidate``.

    Args:
        source: where the parts are.
        target: where the whole tensors are to be.
        mapping: the number of each tensor's file.
        thread_count: how many files each rank makes at the same time.
        overwrite: whether a checkpoint may be replaced.
        ranks: who shares the work.
        begun: the save that this is the end of, where the target's index was taken away already.
    """

    def plan() -> _Work:
        nonlocal begun
        found = find_layout(source)
        pieces = read_pieces(source, found.names, found.file_of)
        outputs = plan_outputs(pieces, mapping, source.uri)
        _check_unaltered(source, found, pieces.files)
        if begun is None:
            begun = begin_save(target, str(uuid.uuid4()), overwrite=overwrite)
        return _Work(pieces.files, outputs, _known_sums(found))

    work = ranks.first_does(plan, "could not begin to consolidate")

    def make(output: OutputFile) -> FileRecord:
        return make_file(source, work.files, target, output, work.known)

    def make_own() -> dict[str, FileRecord]:
        own = _dealt(work.outputs, ranks.count)[ranks.rank]
        with ThreadPool(thread_count, thread_name_prefix="torchbucket-consolidate") as pool:
            under_way = [pool.submit(make, output) for output in own]
            try:
                return {output.name: one.result() for output, one in zip(own, under_way, strict=True)}
            except BaseException:
                for one in under_way:
                    one.cancel()
                raise

    records = ranks.all_do(make_own, "could not consolidate its files")

    def publish() -> None:
        assert begun is not None, "the first rank has begun"
        begun.publish_whole(
            {name: record for of_rank in records for name, record in of_rank.items()},
            {tensor.name: output.name for output in work.outputs for tensor in output.tensors},
            sum(tensor.size_bytes for output in work.outputs for tensor in output.tensors),
        )

    ranks.first_does(publish, "could not publish the index")


def _check_unaltered(source: CheckpointDirectory, found: FoundLayout, files: Mapping[str, TensorFile]) -> None:
    """Raise where a file is not the one that was written; of files of others nothing is known but their headers."""
    if found.manifest is not None and files:
        checked_files(source, {name: file.info.size_bytes for name, file in files.items()}, found.manifest)


def _known_sums(found: FoundLayout) -> dict[tuple[str, int], tuple[int, str]]:
    if found.manifest is None:
        return {}
    return {
        (name, offset): value
        for name, record in found.manifest.files.items()
        for offset, value in record.sums().items()
    }


def _dealt(outputs: Sequence[OutputFile], count: int) -> list[list[OutputFile]]:
    """The files for each rank, so that all make about as many bytes."""
    dealt: list[list[OutputFile]] = [[] for _ in range(count)]
    sizes = [(0, rank) for rank in range(count)]
    for output in sorted(outputs, key=lambda output: -output.size_bytes):
        size, rank = heapq.heappop(sizes)
        dealt[rank].append(output)
        heapq.heappush(sizes, (size + output.size_bytes, rank))
    return dealt
