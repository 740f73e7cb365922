"""Whether a sweep's jobs get as many nodes as they ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ConfigurationError

__all__ = ["check_nodes"]

_BASIC: Final = "BasicLauncher"


def check_nodes(points: Sequence[JobSettings], *, there: int, launcher: Mapping[str, Any]) -> None:
    """Raise for the first point whose ``nodes`` are not those that will run it.

    Args:
        points: of the sweep.
        there: how many nodes run this command.
        launcher: Hydra's configuration of the launcher. One that submits jobs, as submitit does, says by ``nodes`` and
            ``tasks_per_node`` how many processes each job gets.

    Raises:
        ConfigurationError: with the command that starts them.
    """
    name = str(launcher["_target_"]).rpartition(".")[2]
    if there > 1 and name != _BASIC:
        raise ConfigurationError(
            f"{name} would start jobs elsewhere, and {there} nodes run this command to take part in them: leave "
            "hydra/launcher=… out, or start the command once"
        )
    submitted = int(launcher["nodes"]) * int(launcher["tasks_per_node"]) if "tasks_per_node" in launcher else 1
    given = there if there > 1 else submitted
    for point in points:
        wanted = int(point.config["nodes"])
        if wanted == given:
            continue
        if name == _BASIC:
            raise ConfigurationError(
                f"nodes={wanted} and this command runs on {there}: start it on each of them by torchrun "
                f"--nnodes={wanted} --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400 "
                f"-m bucketbench.cli run {point.scenario} nodes={wanted} … (docs/cluster.md)"
            )
        raise ConfigurationError(
            f"nodes={wanted} and {name} gives each job {submitted}: set hydra.launcher.nodes={wanted} and "
            "hydra.launcher.tasks_per_node=1 where it has them, or nodes=1"
        )
