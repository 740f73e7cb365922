"""The commands of docs/cluster.md start as many nodes as they say, by launchers and options that there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from composition import swept_with
from met_nodes import meetings

from bucketbench.job.composed import settings_of
from bucketbench.sweep.sweep import Sweep

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "cluster.md").read_text()
COMMANDS = [
    line.replace("$SLURM_NNODES", "4")
    for block in re.findall(r"^```\n(.*?)^```", PAGE, re.M | re.S)
    for line in block.replace("\\\n", " ").splitlines()
    if " run dcp_" in line
]


def test_the_page_has_a_command_of_each_kind() -> None:
    assert len(COMMANDS) == 4
    text = "\n".join(COMMANDS)
    for word in ("srun torchrun", "submitit_slurm", "launcher=ray", "bucketbench.cli run"):
        assert word in text


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[0])
def test_a_command_composes_and_gets_its_nodes(command: str) -> None:
    if "launcher=ray" in command and find_spec("ray") is None:
        pytest.skip("ray is not installed")
    words = shlex.split(command)
    scenario, *overrides = words[words.index("run") + 1 :]
    started = re.search(r"--nnodes=(\d+)", " ".join(words))

    def check(sweep: Sweep, arguments: Sequence[str]) -> None:
        composed = map(sweep.composed, sweep._points(arguments).distinct)
        points = [settings_of(config, config.hydra) for config in composed]
        assert points
        sweep._check_launcher(points, None if started is None else meetings(int(started[1]))[0])

    swept_with(scenario, overrides, check)
