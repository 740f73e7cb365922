"""safetensors checkpoints in buckets: saved from the tensors' memory, loaded into it, read in part, or streamed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchbucket.safetensors.handle import OpenSafetensors, TensorSlice, safe_open
    from torchbucket.safetensors.loading import load_file
    from torchbucket.safetensors.saving import save_file, save_sharded
    from torchbucket.safetensors.streaming import stream

__all__ = ["OpenSafetensors", "TensorSlice", "load_file", "safe_open", "save_file", "save_sharded", "stream"]

# Headers can be read without torch, which takes seconds to load.
_LOADED_WHEN_USED = {
    "OpenSafetensors": "handle",
    "TensorSlice": "handle",
    "load_file": "loading",
    "safe_open": "handle",
    "save_file": "saving",
    "save_sharded": "saving",
    "stream": "streaming",
}


def __getattr__(name: str) -> object:
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LOADED_WHEN_USED[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
