"""What a scenario says is the user's to choose are keys of its configuration."""

from __future__ import annotations

import pytest
import yaml

from bucketbench.configuration.directory import PACKAGED
from bucketbench.scenarios import find_scenario, scenario_names


@pytest.mark.parametrize("name", scenario_names())
def test_every_tunable_key_is_one_of_the_configuration(name: str) -> None:
    for key in find_scenario(name).tunable:
        group, _, last = key.rpartition(".")
        file = PACKAGED / group / "default.yaml" if group else PACKAGED / f"{name}.yaml"
        assert last in yaml.safe_load(file.read_text(encoding="utf-8")), key
