"""Saves a state, or loads it and prints by how many bytes the process grew meanwhile; each in a process of its own.

python load_memory_program.py ENDPOINT save|save-legacy|load|load-legacy TENSORS MIB
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import torch

from torchbucket import Checkpoint, StoreConfig


def resident_bytes(field: str) -> int:
    """``VmRSS``, what is in memory now, or ``VmHWM``, the most that was since ``forget_peak``."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"/proc/self/status has no {field}")


def forget_peak() -> None:
    """Begin a new peak. Source: proc_pid_clear_refs(5), value 5."""
    Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    """Do what the command line says."""
    endpoint, action, tensors, mib = sys.argv[1:]
    config = StoreConfig(endpoint=endpoint, region="us-east-1", anonymous=True)
    checkpoint = Checkpoint("s3://runs", config=config)
    each = (int(mib) << 20) // int(tensors) // 4
    if action.startswith("save"):
        state = {f"layers.{number}.weight": torch.full((each,), float(number)) for number in range(int(tensors))}
        if action == "save":
            checkpoint.save(state, "state.pt")
        else:
            with checkpoint.writer("legacy.pt") as file:
                torch.save(state, file, _use_new_zipfile_serialization=False)
        checkpoint.save({"weight": torch.ones(1 << 20)}, "warm.pt")
        return
    checkpoint.load("warm.pt")  # connections and code come once
    gc.collect()
    before = resident_bytes("VmRSS")
    forget_peak()
    loaded = checkpoint.load("legacy.pt" if action == "load-legacy" else "state.pt")
    print(resident_bytes("VmHWM") - before)
    assert all(torch.all(loaded[f"layers.{number}.weight"] == number) for number in range(int(tensors)))


if __name__ == "__main__":
    main()
