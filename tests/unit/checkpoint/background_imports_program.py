"""Prints what a process's first layout of an archive, which may be a background thread's, imports besides."""

from __future__ import annotations

import sys

import torch

import torchbucket
from torchbucket.checkpoint.archive import lay_out

assert torchbucket.save_async  # loaded by the thread that calls it
before = set(sys.modules)
assert lay_out({"weight": torch.ones(3), "epoch": 1}, 2) is not None
print(*sorted(set(sys.modules) - before), flush=True)
