"""Saves one checkpoint after another under one key, until it is killed: ``killed_save_program.py URI ENDPOINT``."""

from __future__ import annotations

import sys

import torch

import torchbucket
from torchbucket.config import MIB

uri, endpoint = sys.argv[1:]
config = torchbucket.StoreConfig(endpoint=endpoint, anonymous=True, part_size_bytes=5 * MIB)
for epoch in range(1, 1000):
    state = {"epoch": epoch, "weight": torch.full((3 * MIB,), float(epoch))}
    if epoch % 3 == 0:
        torchbucket.save_async(state, uri, config=config)
    elif epoch % 3 == 1:
        torchbucket.save(state, uri, config=config)
    else:
        state["meta"] = torch.empty(1, device="meta")  # which goes the plain way
        torchbucket.save(state, uri, config=config)
