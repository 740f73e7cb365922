"""safetensors checkpoints in buckets: saved from the tensors' memory, loaded into it, read in part, or streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchbucket.lazy_names import loaded_when_used

if TYPE_CHECKING:
    from torchbucket.safetensors.handle import OpenSafetensors, TensorSlice, safe_open
    from torchbucket.safetensors.loading import load_file
    from torchbucket.safetensors.saving import save_file, save_sharded
    from torchbucket.safetensors.streaming import stream

__all__ = ["OpenSafetensors", "TensorSlice", "load_file", "safe_open", "save_file", "save_sharded", "stream"]

# Headers can be read without torch, which takes seconds to load.
__getattr__, __dir__ = loaded_when_used(
    __name__,
    {
        "OpenSafetensors": "torchbucket.safetensors.handle",
        "TensorSlice": "torchbucket.safetensors.handle",
        "load_file": "torchbucket.safetensors.loading",
        "safe_open": "torchbucket.safetensors.handle",
        "save_file": "torchbucket.safetensors.saving",
        "save_sharded": "torchbucket.safetensors.saving",
        "stream": "torchbucket.safetensors.streaming",
    },
)
