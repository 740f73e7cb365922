"""Where a trainer's checkpoint is, from whatever Lightning calls a path."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError
from torchbucket.uri import ObjectURI

__all__ = ["config_for", "located", "refuse_storage_options"]


def located(path: str | os.PathLike[str]) -> ObjectURI:
    """The address of a checkpoint. A text without a scheme is a path on this machine, as everywhere in Lightning."""
    text = os.fspath(path)
    location = ObjectURI.parse(text if "://" in text else Path(text))
    location = replace(location, key=location.key.rstrip("/"))
    if not location.key:
        raise ConfigError(
            f"{str(location)!r} is a whole bucket; a checkpoint is an object in it, such as "
            f"{str(location).rstrip('/') + '/step-100.ckpt'!r}"
        )
    return location


def config_for(location: ObjectURI, config: StoreConfig | None) -> StoreConfig | None:
    """A bucket's settings, which mean nothing to files and memory."""
    return None if location.scheme in ("file", "memory") else config


def refuse_storage_options(by: object, storage_options: Any | None) -> None:
    """Raise where Lightning passes settings on by another way than ``config``."""
    if storage_options is not None:
        raise TypeError(
            f"storage_options={storage_options!r}: {type(by).__name__} has its settings from its argument "
            "'config', a torchbucket.StoreConfig; save without storage_options"
        )
