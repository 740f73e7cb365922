"""States as a training has them, and what compares two."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

__all__ = ["emptied", "same", "training_state"]


def training_state(seed: int = 0) -> dict[str, Any]:
    """One of each kind of thing that a distributed checkpoint holds."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(30, 50), nn.LayerNorm(50), nn.Linear(50, 4).to(torch.bfloat16))
    whole = torch.arange(600.0).reshape(20, 30) + seed
    return {
        "model": model.state_dict(),
        "views": {"rows": whole[3:9], "columns": whole[:, 2:7], "every other": whole[::2, ::3], "turned": whole.t()},
        "odd": {"none": torch.empty(0), "no rows": torch.empty(0, 4), "scalar": torch.tensor(3.5 + seed)},
        "dtypes": {str(dtype): torch.arange(24, dtype=torch.uint8).view(dtype).clone() for dtype in DTYPES},
        "bool": torch.arange(7) % 2 == 0,
        "complex": torch.arange(6.0).to(torch.complex64).conj(),
        "epoch": 3 + seed,
        "nested": {"list": [1, torch.ones(2), "text"], "tuple": (1.5, None)},
    }


DTYPES = (torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float64, torch.float8_e4m3fn)


def emptied(state: Any) -> Any:
    """The same state with other content, to load into."""
    if isinstance(state, torch.Tensor):
        return torch.zeros_like(state)
    if isinstance(state, dict):
        return {key: emptied(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(map(emptied, state))
    return None


def same(found: Any, wanted: Any) -> bool:
    """Whether two states have equal content."""
    if isinstance(wanted, torch.Tensor):
        bits = [tensor.contiguous().resolve_conj().flatten().view(torch.uint8) for tensor in (found, wanted)]
        return found.dtype == wanted.dtype and found.shape == wanted.shape and torch.equal(*bits)
    if isinstance(wanted, dict):
        return list(found) == list(wanted) and all(same(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return bool(found == wanted)
