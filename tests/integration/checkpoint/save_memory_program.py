"""Prints the MiB that saves add at their peak: ``save_memory_program.py ENDPOINT STATE_MIB BUDGET_MIB``."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import torch

import torchbucket
from torchbucket.config import MIB

endpoint, state_mib, budget_mib = sys.argv[1], *map(int, sys.argv[2:])
# More parts than requests may be under way at once.
config = torchbucket.StoreConfig(
    endpoint=endpoint, anonymous=True, part_size_bytes=5 * MIB, memory_budget_bytes=budget_mib * MIB
)
state = {f"layer.{number}": torch.full((2 * MIB,), float(number)) for number in range(state_mib // 8)}


def memory_mib(field: str) -> float:
    found = re.search(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def added_mib(save: Callable[[], object]) -> float:
    Path("/proc/self/clear_refs").write_text("5")  # starts the peak anew
    before = memory_mib("VmRSS")
    save()
    return memory_mib("VmHWM") - before


uri = "s3://data/memory.pt"
torchbucket.save({"small": torch.ones(10)}, uri, config=config)  # connections and threads
for name, save in {
    "in place": lambda: torchbucket.save(state, uri, config=config),
    "plain": lambda: torchbucket.save(
        {**state, "meta": torch.empty(1, device="meta")}, uri, config=config, verify=True
    ),
    "async": lambda: torchbucket.save_async(state, uri, config=config).result(),
}.items():
    print(f"{name}: {added_mib(save):.0f}")
