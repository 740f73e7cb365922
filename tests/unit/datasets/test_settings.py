"""The options of data sets: what type checkers and ``help`` show are the settings that there are, and no other goes."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from torchbucket import ConfigError, IterableDataset, MapDataset, TarDataset, open_store
from torchbucket.datasets.settings import IterableOptions, IterableSettings, MapOptions, MapSettings
from torchbucket.datasets.tar.settings import TarOptions, TarSettings

SETTINGS = {MapDataset: MapSettings, IterableDataset: IterableSettings, TarDataset: TarSettings}
CONSTRUCTORS = pytest.mark.parametrize(
    ("dataset", "constructor"),
    [(dataset, name) for dataset in SETTINGS for name in ("from_prefix", "from_objects", "from_manifest")],
)


@pytest.mark.parametrize(
    ("options", "settings"),
    [(MapOptions, MapSettings), (IterableOptions, IterableSettings), (TarOptions, TarSettings)],
)
def test_options_and_settings_have_the_same_names_and_types(options, settings):
    offered = {name: kind.__forward_arg__ for name, kind in options.__annotations__.items()}
    assert offered == {field.name: field.type for field in fields(settings)}


@CONSTRUCTORS
def test_help_shows_every_option_with_its_default_and_what_it_does(dataset, constructor):
    shown = inspect.signature(getattr(dataset, constructor)).parameters
    text = inspect.getdoc(getattr(dataset, constructor))
    for field in fields(SETTINGS[dataset]):
        assert shown[field.name].default == field.default
        assert f"\n    {field.name}: " in text
    for name in shown:
        assert f"\n    {name}: " in text
    assert text.index("\nArgs:") < text.index("\n    config: ") < text.index("\n\nRaises:")
    assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in shown.values())


@CONSTRUCTORS
def test_a_wrong_keyword_is_named_with_those_that_there_are(dataset, constructor):
    made = getattr(dataset, constructor)
    with pytest.raises(TypeError) as raised:
        made("memory://anything/", region="eu-west-1", transform=None)
    message = str(raised.value)
    assert message.startswith(f"{dataset.__name__}.{constructor} has no argument 'region'; it takes ")
    for name in inspect.signature(made).parameters:
        assert name in message
    assert "__init__" not in message


class S3ClientConfig:
    """Of another library."""


@pytest.mark.parametrize("scheme", ["s3", "gs", "file", "memory"])
def test_the_settings_of_another_library_are_refused_by_name(scheme):
    for make in (MapDataset.from_objects, IterableDataset.from_objects, TarDataset.from_objects):
        with pytest.raises(
            ConfigError, match=r"config must be a torchbucket\.StoreConfig or None; got .*S3ClientConfig"
        ):
            make([f"{scheme}://bucket/a.tar"], config=S3ClientConfig())
    with pytest.raises(ConfigError, match="S3ClientConfig"):
        open_store(f"{scheme}://bucket", S3ClientConfig())
    with pytest.raises(ConfigError, match=r"builtins\.dict"):
        MapDataset.from_prefix(f"{scheme}://bucket/a", config={"region": "eu-west-1"})
