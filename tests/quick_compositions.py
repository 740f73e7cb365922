"""What Hydra does for each composition and tests can do without: they compose some hundreds of configurations."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from hydra._internal import config_loader_impl, defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, IConfigRepository
from hydra._internal.hydra import Hydra
from omegaconf import DictConfig, OmegaConf
from omegaconf.base import Metadata

__all__ = ["quick_compositions"]

_OWN = Path(__file__).resolve().parents[1] / "conf"


@contextmanager
def quick_compositions() -> Iterator[None]:
    """A block in which Hydra makes the same configurations with a fifth of the work.

    No text is parsed twice, none is composed only to be told of ``hydra.mode``, the repository's files are merged once
    for each choice of groups, and what nobody changes is not copied.
    """
    create, compose = _merged_once()
    with (
        mock.patch.object(OmegaConf, "load", _parsed_once()),
        mock.patch.object(Hydra, "get_mode", _mode_that_is_said()),
        mock.patch.object(config_loader_impl, "create_defaults_list", create),
        mock.patch.object(ConfigLoaderImpl, "_compose_config_from_defaults_list", compose),
        mock.patch.object(CachingConfigRepository, "__init__", _cache_repository),
        mock.patch.object(Metadata, "__deepcopy__", _copy_metadata, create=True),
    ):
        yield


def _parsed_once() -> Any:
    parse, parsed = OmegaConf.load, dict[str, Any]()

    def load(file: Any) -> Any:
        if isinstance(file, str | Path):
            return parse(file)
        text = file.read()
        if text not in parsed:
            file.seek(0)
            parsed[text] = parse(file)  # whose errors name the file
        return copy.deepcopy(parsed[text])

    return load


def _mode_that_is_said() -> Any:
    mode_of = Hydra.get_mode

    def get_mode(hydra: Hydra, config_name: str | None, overrides: list[str]) -> Any:
        said = any("hydra.mode" in override for override in overrides)
        return mode_of(hydra, config_name, overrides) if said else None  # it is --multirun then

    return get_mode


def _cache_repository(cache: CachingConfigRepository, delegate: IConfigRepository) -> None:
    cache.delegate = copy.copy(delegate)  # whose sources are replaced and never changed
    cache.cache = {}


def _copy_metadata(metadata: Metadata, memo: dict[int, Any]) -> Metadata:
    copied = copy.copy(metadata)
    copied.flags = copy.copy(metadata.flags)
    copied.resolver_cache = copy.deepcopy(metadata.resolver_cache, memo)
    return copied


def _merged_once() -> tuple[Any, Any]:
    """Hydra's two steps from a choice of groups to a configuration, taken once where all files are the repository's."""
    list_of, config_of = config_loader_impl.create_defaults_list, ConfigLoaderImpl._compose_config_from_defaults_list
    lists: dict[Any, defaults_list.DefaultsList] = {}
    configs: dict[int, DictConfig | None] = {}

    def create(
        repo: IConfigRepository, config_name: str | None, overrides_list: list[Any], *flags: bool, **named: bool
    ) -> defaults_list.DefaultsList:
        sources = [(source.provider, source.scheme(), source.path) for source in repo.get_sources()]
        if any(scheme == "file" and not Path(path).resolve().is_relative_to(_OWN) for _, scheme, path in sources):
            return list_of(repo, config_name, overrides_list, *flags, **named)  # a test may change that file
        groups = [
            one.input_line
            for one in overrides_list
            if not one.is_sweep_override() and repo.group_exists(one.key_or_group)
        ]
        key = (*sources, config_name, *groups, *flags, *named.values())
        if key not in lists:
            lists[key] = list_of(repo, config_name, overrides_list, *flags, **named)
            configs[id(lists[key].defaults)] = None
        found = copy.copy(lists[key])
        found.config_overrides = defaults_list.Overrides(repo, overrides_list).config_overrides
        return found

    def compose(loader: ConfigLoaderImpl, defaults: list[Any], repo: IConfigRepository) -> DictConfig:
        if id(defaults) not in configs:
            return config_of(loader, defaults, repo)
        if configs[id(defaults)] is None:
            configs[id(defaults)] = config_of(loader, defaults, repo)
        return copy.deepcopy(configs[id(defaults)])

    return create, compose
