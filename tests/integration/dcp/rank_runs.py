"""Starts the ranks of a program, which do one thing after the other together, as those of a training do."""

from __future__ import annotations

import itertools
import json
import signal
from pathlib import Path
from typing import Any

from forked_programs import start

__all__ = ["run_ranks"]

IMPORTS = (
    "torch._dynamo",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torchbucket.dcp.reader",
    "torchbucket.dcp.writer",
)
FOUND = "found: "  # as `rank_program` prints it
_numbers = itertools.count()


def run_ranks(
    program: Path, world_size: int, actions: tuple[tuple[str, str], ...], *, directory: Path, endpoint: str
) -> list[list[Any]]:
    """Has so many ranks do things; returns by action what each rank has found, or the number of the signal that killed
    it before.

    Args:
        program: whose arguments are rank, world size, rendezvous file, endpoint, and each action with its address; of
            each action it prints a line of JSON behind `FOUND`.
        world_size: how many.
        actions: what they do, and the address of what they do it to.
        directory: where they meet.
        endpoint: of the store.
    """
    rendezvous = directory / f"rendezvous-{next(_numbers)}"
    words = itertools.chain.from_iterable(actions)
    arguments = (world_size, rendezvous, endpoint, *words)
    running = [start(program, rank, *arguments, imports=IMPORTS) for rank in range(world_size)]
    by_rank: list[list[Any]] = []
    for one in running:
        ended = one.wait()
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
        lines = [line for line in ended.stdout.splitlines() if line.startswith(FOUND)]
        found = [json.loads(line.removeprefix(FOUND)) for line in lines]
        assert ended.returncode or len(found) == len(actions), ended.stdout
        by_rank.append([*found, *[signal.SIGKILL] * (len(actions) - len(found))])
    return [list(of_ranks) for of_ranks in zip(*by_rank, strict=True)]
