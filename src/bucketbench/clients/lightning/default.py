"""What Lightning does without a plugin: through fsspec in a bucket, and to a local file."""

from __future__ import annotations

from typing import Any

from bucketbench.clients import gcsfs, s3fs
from bucketbench.clients.protocol import Target

__all__ = ["Default", "DefaultAsync", "Disk"]


class Default:
    """Lightning's ``TorchCheckpointIO`` over s3fs or gcsfs, which are told of the target by fsspec's configuration.

    Args:
        cache_type: of the files that gcsfs opens for reading, such as ``readahead``; None for gcsfs's default.
    """

    def __init__(self, *, cache_type: str | None = None) -> None:
        self._cache_type = cache_type

    def checkpoint_io(self, target: Target) -> Any:
        """None: the trainer's own default."""
        if target.scheme == "gs":
            gcsfs.register_filesystem(target, cache_type=self._cache_type)
        else:
            s3fs.register_filesystem(target)


class DefaultAsync(Default):
    """Lightning's ``AsyncCheckpointIO`` around that. Arguments likewise."""

    saves_in_background = True

    def checkpoint_io(self, target: Target) -> Any:
        """The plugin, around the trainer's own default."""
        from lightning.pytorch.plugins.io import AsyncCheckpointIO, TorchCheckpointIO

        super().checkpoint_io(target)
        return AsyncCheckpointIO(TorchCheckpointIO())


class Disk:
    """Lightning's ``TorchCheckpointIO`` to local files, usually to the page cache. A reference, not a contestant."""

    saves_local_files = True
    reads_through = "disk"

    def checkpoint_io(self, target: Target) -> Any:
        """None: the trainer's own default."""
        del target
