"""Checkpoints of the safetensors layout in memory: states, the three ways to save them, and the files of each."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from saved_states import emptied

from torchbucket.dcp import BucketHuggingFaceReader, BucketHuggingFaceWriter
from torchbucket.store import open_store

__all__ = [
    "INDEX",
    "MANIFEST",
    "SHAPES",
    "STORE",
    "WAYS",
    "copied_from_files",
    "copied_to_files",
    "flat",
    "key",
    "load",
    "names",
    "new_run",
    "parts",
    "save",
    "shard",
    "state",
]

STORE = open_store("memory://hf")
INDEX = "model.safetensors.index.json"
MANIFEST = ".torchbucket.json"
WAYS: list[dict[str, Any]] = [
    {},
    {"save_distributed": True},
    {"save_distributed": True, "enable_consolidation": True},
]
_numbers = itertools.count()


def new_run() -> str:
    return f"memory://hf/run-{next(_numbers)}"


def key(uri: str) -> str:
    return uri.removeprefix("memory://hf/")


def names(uri: str) -> list[str]:
    return [info.key.removeprefix(f"{key(uri)}/") for info in STORE.list(f"{key(uri)}/")]


DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64),
    *(torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
]


def bits(count: int, dtype: torch.dtype) -> torch.Tensor:
    return (torch.arange(count * dtype.itemsize, dtype=torch.uint8) % 2).view(dtype)


def state() -> dict[str, Any]:
    whole = torch.arange(600.0).reshape(20, 30)
    return {
        "dtypes": {str(dtype): bits(24, dtype).reshape(4, 6) for dtype in DTYPES},
        "odd": {"none": torch.empty(0), "no rows": torch.empty(0, 4, dtype=torch.int64), "scalar": torch.tensor(7)},
        "views": {"rows": whole[3:9], "columns": whole[:, 2:7], "turned": whole.t(), "all": torch.ones(1).expand(5)},
        "tied": {"one": whole, "other": whole},
        "conjugate": torch.arange(6.0).to(torch.complex64).conj(),
    }


def save(saved: Any, uri: str, *arguments: Any, **options: Any) -> None:
    dcp.save(saved, storage_writer=BucketHuggingFaceWriter(uri, *arguments, **options), no_dist=True)


def load(saved: Any, uri: str, **options: Any) -> Any:
    into = emptied(saved)
    dcp.load(into, storage_reader=BucketHuggingFaceReader(uri, **options), no_dist=True)
    return into


def flat(saved: dict[str, Any], prefix: str = "") -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for name, value in saved.items():
        found.update(flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value})
    return found


def copied_to_files(uri: str, directory: Path) -> Path:
    for name in names(uri):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(STORE.read(f"{key(uri)}/{name}").data)
    return directory


def copied_from_files(directory: Path, uri: str) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            STORE.write(f"{key(uri)}/{path.relative_to(directory)}", path.read_bytes())


SHAPES = {"rows": (5, 4), "columns": (4, 6), "whole": (3,), "scalar": (), "last": (2, 2)}


def parts() -> tuple[dict[str, torch.Tensor], list[dict[str, Any]]]:
    """Tensors, and what two ranks have of each: the first two parts of one."""
    whole = {
        name: torch.arange(float(torch.Size(shape).numel())).reshape(shape) + number
        for number, (name, shape) in enumerate(SHAPES.items())
    }
    first = {
        "rows": [((0, 0), whole["rows"][:1]), ((3, 0), whole["rows"][3:])],
        "columns": [((0, 0), whole["columns"][:, :2])],
        "whole": [((0,), whole["whole"])],
        "scalar": [((), whole["scalar"])],
    }
    second = {
        "rows": [((1, 0), whole["rows"][1:3])],
        "columns": [((0, 2), whole["columns"][:, 2:])],
        "whole": [((3,), whole["whole"][3:])],
        "last": [((0, 0), whole["last"])],
    }
    return whole, [first, second]


def shard(uri: str, number: int, tensors: dict[str, torch.Tensor], info: Any) -> None:
    metadata = {"format": "pt", "DCP_SHARDING_INFO": json.dumps(info)}
    name = f"shard-{number:05}-model-00001-of-00001.safetensors"
    STORE.write(f"{key(uri)}/{name}", safetensors.torch.save(tensors, metadata))
