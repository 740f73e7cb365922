"""The files that a node's ranks have left, in one piece of bytes that node 0 lays beside its own."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Final

from bucketbench.errors import ResultsError
from bucketbench.job.description import (
    CLOCK_FILE,
    LOG_FILE,
    OPERATIONS_FILE,
    OUTCOME_FILE,
    USAGE_FILE,
    rank_directory,
)

__all__ = ["pack", "unpack"]

_RANK_FILES: Final = (OPERATIONS_FILE, USAGE_FILE, OUTCOME_FILE, CLOCK_FILE)


def pack(directory: Path, ranks: Collection[int], *, world_size: int) -> bytes:
    """The records, outcomes and the log in a job's directory.

    Args:
        directory: the job's on this node.
        ranks: those that ran on it.
        world_size: how many ranks the job has on all nodes.
    """
    parcel = io.BytesIO()
    with zipfile.ZipFile(parcel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as files:
        for path in [directory / LOG_FILE, *_rank_files(directory, ranks, world_size)]:
            if path.is_file():
                files.write(path, path.relative_to(directory))
    return parcel.getvalue()


def unpack(parcel: bytes, directory: Path, ranks: Collection[int], *, world_size: int, log: Path) -> None:
    """Lay out what ``pack`` has put together on another node.

    Args:
        parcel: of ``pack``.
        directory: the job's on this node.
        ranks: those that ran on the other one; no file of another rank, and none of another name, is written.
        world_size: how many ranks the job has on all nodes.
        log: the file that the other node's log becomes.

    Raises:
        ResultsError: it is damaged, or has a file that is none of these.
    """
    places = {str(path.relative_to(directory)): path for path in _rank_files(directory, ranks, world_size)}
    places[LOG_FILE] = log
    try:
        with zipfile.ZipFile(io.BytesIO(parcel)) as files:
            for name in files.namelist():
                if name not in places:
                    raise ResultsError(f"a node has sent a file {name!r}, which is no record of its ranks")
                places[name].parent.mkdir(parents=True, exist_ok=True)
                places[name].write_bytes(files.read(name))  # its CRC is checked
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ResultsError(f"the records that a node has sent are damaged: {error}") from error


def _rank_files(directory: Path, ranks: Collection[int], world_size: int) -> list[Path]:
    folders = [rank_directory(directory, rank=rank, world_size=world_size) for rank in ranks]
    return [folder / name for folder in folders for name in _RANK_FILES]
