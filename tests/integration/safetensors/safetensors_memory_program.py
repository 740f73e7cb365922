"""Saves, loads and streams tensors, and prints by how many bytes the process grew during each.

python safetensors_memory_program.py ENDPOINT TENSORS MIB
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from torchbucket import StoreConfig
from torchbucket.safetensors import load_file, safe_open, save_file, stream


def resident_bytes(field: str) -> int:
    """``VmRSS``, what is in memory now, or ``VmHWM``, the most that was since the peak was forgotten."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"/proc/self/status has no {field}")


def added_bytes(call: Callable[[], object]) -> int:
    """What a call adds at its peak, with what it returns."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # What was freed is not in the way of what is counted.
    before = resident_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # Source: proc_pid_clear_refs(5): forget the peak.
    kept = call()
    added = resident_bytes("VmHWM") - before
    del kept
    return added


def main() -> None:
    """Do what the command line says."""
    endpoint, tensors, mib = sys.argv[1:]
    config = StoreConfig(endpoint=endpoint, region="us-east-1", anonymous=True)
    uri, each = "s3://runs/model.safetensors", (int(mib) << 20) // int(tensors) // 4
    state = {f"layers.{number}.weight": torch.full((each,), float(number)) for number in range(int(tensors))}
    state |= {"rows": torch.ones(1 << 12, 1 << 12)}  # 64 MiB in rows of 16 KiB
    save_file({"warm": torch.ones(1 << 20)}, "s3://runs/warm", config=config)  # connections and code come once
    load_file("s3://runs/warm", config=config)

    def drain() -> None:
        for _ in stream(uri, budget_bytes=32 << 20, config=config):
            pass

    added = {"save": added_bytes(lambda: save_file(state, uri, config=config))}
    state.clear()
    added["load"] = added_bytes(lambda: load_file(uri, config=config))
    added["stream"] = added_bytes(drain)
    added["slice"] = added_bytes(lambda: safe_open(uri, config=config).get_slice("rows")[:, :8])
    print(json.dumps(added))


if __name__ == "__main__":
    main()
