"""What Hydra does for each composition and tests can do without: they compose some thousands of configurations."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from hydra._internal.hydra import Hydra
from omegaconf import OmegaConf

__all__ = ["quick_compositions"]


@contextmanager
def quick_compositions() -> Iterator[None]:
    """A block in which no text is parsed twice, and none is composed only to be told of ``hydra.mode``.

    Each takes a third of the time of a command that composes one configuration.
    """
    parse, mode_of, parsed = OmegaConf.load, Hydra.get_mode, dict[str, Any]()

    def load(file: Any) -> Any:
        if isinstance(file, str | Path):
            return parse(file)
        text = file.read()
        if text not in parsed:
            file.seek(0)
            parsed[text] = parse(file)  # whose errors name the file
        return copy.deepcopy(parsed[text])

    def get_mode(hydra: Hydra, config_name: str | None, overrides: list[str]) -> Any:
        said = any("hydra.mode" in override for override in overrides)
        return mode_of(hydra, config_name, overrides) if said else None  # it is --multirun then

    with mock.patch.object(OmegaConf, "load", load), mock.patch.object(Hydra, "get_mode", get_mode):
        yield
