"""``torchbucket inspect``: what a checkpoint holds, by reading its headers only."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from torchbucket.cli_options import add_store_options, store_config
from torchbucket.inspection.contents import CheckpointContents, StoredTensor
from torchbucket.inspection.formats import inspect_checkpoint
from torchbucket.listing.commands.wording import json_line, shown, size_text

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the subcommand takes."""
    parser.add_argument(
        "uri",
        metavar="URI",
        help="a file of torch.save or safetensors, a safetensors index, or the directory of one or of a "
        "distributed checkpoint",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look and print."""
    contents = inspect_checkpoint(arguments.uri, store_config(arguments))
    sys.stdout.write(json_line(asdict(contents)) if arguments.json else _text(contents))
    return 0


def _text(contents: CheckpointContents) -> str:
    files = len(contents.files)
    lines = [
        f"{shown(contents.uri)}: {contents.format}, {files} file{'s' * (files != 1)} of "
        f"{size_text(sum(contents.files.values()))}",
        f"{len(contents.tensors):,} tensors of {size_text(contents.tensors_bytes)}, "
        f"{contents.other_values:,} other values",
    ]
    if contents.metadata:
        lines += [f"{shown(str(name))}: {shown(str(value))}" for name, value in contents.metadata.items()]
    columns = 4 if files < 2 else 5
    rows = [
        ("name", "dtype", "shape", "bytes", "file")[:columns],
        *(_cells(tensor)[:columns] for tensor in contents.tensors),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if contents.tensors:
        lines += ["", *(_line(row, widths) for row in rows)]
    return "\n".join(lines) + "\n"


def _cells(tensor: StoredTensor) -> tuple[str, ...]:
    name, dtype, file = map(shown, (tensor.name, tensor.dtype, tensor.file.rpartition("/")[2]))
    return name, dtype, str(list(tensor.shape)), f"{tensor.size_bytes:,}", file


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [
        cell.rjust(width) if column == 3 else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()
