"""The keyword arguments that type checkers see are the settings that there are."""

from __future__ import annotations

from dataclasses import fields

import pytest

from torchbucket.datasets.settings import IterableOptions, IterableSettings, MapOptions, MapSettings


@pytest.mark.parametrize(("options", "settings"), [(MapOptions, MapSettings), (IterableOptions, IterableSettings)])
def test_options_and_settings_have_the_same_names_and_types(options, settings):
    offered = {name: kind.__forward_arg__ for name, kind in options.__annotations__.items()}
    assert offered == {field.name: field.type for field in fields(settings)}
