"""One rank that trains FSDP2's and DDP's models: ``model_program.py RANK WORLD_SIZE RENDEZVOUS_FILE ENDPOINT ACTION
URI``; digests of their whole states are printed as JSON behind `found: `."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import warnings
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from torchbucket import StoreConfig
from torchbucket.dcp import BucketStorageReader, BucketStorageWriter


def made(kind: str, seed: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A model of layers that no number of ranks shares out evenly, with a buffer and a frozen parameter."""
    torch.manual_seed(seed)
    model: Any = torch.nn.Sequential(
        torch.nn.Linear(7, 13), torch.nn.BatchNorm1d(13), torch.nn.ReLU(), torch.nn.Linear(13, 1)
    )
    model[0].bias.requires_grad_(False)
    if kind == "fsdp2":
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in (model[0], model[3], model):
            fully_shard(layer, mesh=mesh)
    else:
        model = DistributedDataParallel(model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return model, torch.optim.AdamW([{"params": trained[:2]}, {"params": trained[2:], "lr": 0.1}], lr=0.01)


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """The same on any number of ranks: all have the same batch."""
    optimizer.zero_grad()
    batch = torch.randn(8, 7, generator=torch.Generator().manual_seed(5))
    model(batch).pow(2).mean().backward()
    optimizer.step()


def digest(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> str:
    """Of the whole state, to the last bit."""
    states = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True))
    found: list[str] = []

    def add(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key in sorted(value):
                add(f"{name}.{key}", value[key])
        elif isinstance(value, torch.Tensor):
            found.append(f"{name} {value.dtype} {list(value.shape)} {value.numpy().tobytes().hex()}")
        else:
            found.append(f"{name} {value}")

    for name, state in zip(("model", "optimizer"), states, strict=True):
        add(name, state)
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


def save(kind: str, uri: str, config: StoreConfig) -> str:
    model, optimizer = made(kind, seed=1)
    for _ in range(2):
        step(model, optimizer)
    weights, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": of_optimizer}
    dcp.save(state, storage_writer=BucketStorageWriter(f"{uri}/{kind}", config=config))
    return digest(model, optimizer)


def load(kind: str, uri: str, config: StoreConfig) -> str:
    model, optimizer = made(kind, seed=2)
    other = digest(model, optimizer)
    weights, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": of_optimizer}
    reader = BucketStorageReader(f"{uri}/{kind}", config=config, read_once=kind == "ddp")
    dcp.load(state, storage_reader=reader)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    loaded = digest(model, optimizer)
    assert loaded != other
    step(model, optimizer)  # it can go on
    return loaded


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rank, world_size = int(sys.argv[1]), int(sys.argv[2])
    rendezvous, endpoint, action, uri = sys.argv[3:]
    dist.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world_size, timeout=timedelta(seconds=60)
    )
    config = StoreConfig(endpoint=endpoint, anonymous=True)
    act = {"save": save, "load": load}[action]
    found = {kind: act(kind, uri, config) for kind in ("fsdp2", "ddp")}
    print(f"found: {json.dumps(found)}", flush=True)
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()
    os._exit(0)  # gloo's threads can outlast their group, and abort an interpreter that ends


if __name__ == "__main__":
    main()
