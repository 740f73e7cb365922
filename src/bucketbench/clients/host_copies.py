"""Copies of a checkpoint on the disk of each host, for clients whose hosts do not share one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from bucketbench.clients.protocol import Target
from bucketbench.clients.torchbucket import store_config
from torchbucket.store import open_store
from torchbucket.uri import ObjectURI

__all__ = ["copy_from_bucket", "is_first_of_host"]

_LAST: Final = (".metadata", "meta.pt")
"""What says that all other files are there, in the order in which PyTorch and Lightning write it."""


def is_first_of_host() -> bool:
    """Whether this is the rank that does what is done once on each host."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def copy_from_bucket(target: Target, name: str, directory: Path) -> None:
    """Copy a checkpoint from below a target's prefix into a directory of its name, if this is the host's first rank.

    Args:
        target: where it is.
        name: the checkpoint's.
        directory: what its directory is made in.
    """
    if not is_first_of_host():
        return
    location = ObjectURI.parse(f"{target.uri}{name}/")
    store = open_store(location, store_config(target))
    names = [info.key.removeprefix(location.key) for info in store.list(location.key)]
    (directory / name).mkdir(parents=True)
    for file in sorted(names, key=lambda file: _LAST.index(file) if file in _LAST else -1):
        path = directory / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.read(location.key + file).data)
