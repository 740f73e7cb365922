"""A strategy that saves and loads by PyTorch's fsspec writer and reader, as programs without a connector have it.

Lightning 2.6 has none; its ``ModelParallelStrategy`` makes a local path of every address.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from bucketbench.clients.protocol import Target

__all__ = ["GCSFS", "S3FS"]

_REST = "meta.pt"  # Source: Lightning, lightning.fabric.utilities.load


class FsspecStrategy(ModelParallelStrategy):
    """Writes what Lightning's own writes, file by file through fsspec.

    Args:
        filesystem: where ``meta.pt`` goes.
        options: as of ``ModelParallelStrategy``.
    """

    def __init__(self, filesystem: Any, **options: Any) -> None:
        super().__init__(**options)
        self._filesystem = filesystem

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any | None = None) -> None:
        """Save the model, which is all that the scenario has."""
        del storage_options
        path: str = self.broadcast(filepath)
        state = {"state_dict": checkpoint.pop("state_dict")}
        save(state, storage_writer=FsspecWriter(path, sync_files=False))
        if self.is_global_zero:
            with self._filesystem.open(f"{path}/{_REST}", "wb") as file:
                torch.save(checkpoint, file)

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        """Load it."""
        assert self.model is not None
        path: str = self.broadcast(checkpoint_path)
        state = {"state_dict": get_model_state_dict(self.model)}
        load(state, storage_reader=FsspecReader(path))
        set_model_state_dict(self.model, state["state_dict"])
        with self._filesystem.open(f"{path}/{_REST}", "rb") as file:
            rest: dict[str, Any] = torch.load(file, weights_only=weights_only)
        return rest

    def remove_checkpoint(self, filepath: Any) -> None:
        """Remove its directory."""
        if self.is_global_zero:
            self._filesystem.rm(filepath, recursive=True)


class _Fsspec(ABC):
    @abstractmethod
    def _filesystem(self, target: Target) -> Any:
        """That of the target, by which fsspec opens its addresses from now on."""

    def strategy(self, target: Target, world_size: int) -> Any:
        """The strategy."""
        return FsspecStrategy(self._filesystem(target), data_parallel_size=world_size, tensor_parallel_size=1)

    def is_saved(self, target: Target, path: str) -> bool:
        """Whether what the strategy writes last is there."""
        filesystem = self._filesystem(target)
        filesystem.invalidate_cache()
        return bool(filesystem.exists(f"{path}/{_REST}"))

    def root(self, target: Target) -> str:
        """The target's own."""
        return target.uri

    def close(self) -> None:  # noqa: B027  # there is nothing that every kind would have to do
        """The connections belong to fsspec's event loop, which ends with the process."""


class S3FS(_Fsspec):
    """By s3fs, every setting of s3fs at its default but for what is given.

    Args:
        block_bytes: by how much files are read ahead, and the size of their parts; None for s3fs's default, 50 MiB.
    """

    def __init__(self, *, block_bytes: int | None = None) -> None:
        self._block_bytes = block_bytes

    def _filesystem(self, target: Target) -> Any:
        from bucketbench.clients.s3fs import make_filesystem, register_filesystem

        register_filesystem(target, block_bytes=self._block_bytes)
        return make_filesystem(target)


class GCSFS(_Fsspec):
    """By gcsfs, every setting of gcsfs at its default but for what is given.

    Args:
        cache_type: of the files that are read, such as ``readahead``; None for gcsfs's default.
    """

    def __init__(self, *, cache_type: str | None = None) -> None:
        self._cache_type = cache_type

    def _filesystem(self, target: Target) -> Any:
        from bucketbench.clients.gcsfs import make_filesystem, register_filesystem

        register_filesystem(target, cache_type=self._cache_type)
        return make_filesystem(target)
