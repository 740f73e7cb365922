"""One point of a sweep that saves and loads distributed checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from bucketbench.checkpointing.course import Action
from bucketbench.checkpointing.distributed_schema import DISTRIBUTED_RULES, DistributedCheckpointingConfig
from bucketbench.checkpointing.keeping import KeepingSettings
from bucketbench.checkpointing.settings import STATE_COPIES, TESTBED_COPIES, CheckpointingSettings
from bucketbench.checkpointing.state import StateSpec
from bucketbench.configuration.schema import ScenarioConfig
from bucketbench.configuration.values import Rule
from bucketbench.errors import ConfigurationError, PreflightError
from bucketbench.job.description import Component
from bucketbench.telemetry.gpu import Gpus

__all__ = ["DistributedCheckpointingSettings"]

_LEAST_RANKS: Final = 2
"""To how many ranks a workload is scaled down at most. *Source*: ours: with one there is nothing distributed."""

_OF_ONE_ACTION: Final = frozenset({"load_ranks", "async_checkpointer", "reuse_stager", "verify"})
_OTHER_NAMES: Final = frozenset({"ranks", "world_size", "steps", "epochs"})


@dataclass(frozen=True, kw_only=True, slots=True)
class DistributedCheckpointingSettings(KeepingSettings):
    """The composed configuration of one job that saves and loads distributed checkpoints, by any number of ranks."""

    replicated: ClassVar[bool] = False
    """Whether every rank has all of the state."""

    several_nodes: ClassVar[bool] = True

    schema: ClassVar[type[ScenarioConfig]] = DistributedCheckpointingConfig
    rules: ClassVar[Mapping[str, Rule]] = DISTRIBUTED_RULES
    no_parameters: ClassVar[frozenset[str]] = frozenset({
        "prefix", "path", "checkpoint.size", "workload", "thread_count", "steps_per_save", "step_time_s",
        *_OF_ONE_ACTION, *_OTHER_NAMES,
    })  # fmt: skip

    @property
    def state(self) -> StateSpec:
        """What is saved, its size divided by the workload's scale."""
        scale = float(self.config["workload"]["scale"])
        if scale != 1 and self.config["checkpoint"]["model"] != "tensors":
            raise ConfigurationError(
                f"workload.scale={scale:g} divides the size of equal tensors, and checkpoint.model="
                f"{self.config['checkpoint']['model']} has the size that it has: leave the scale at 1, or take "
                "checkpoint=tensors"
            )
        return StateSpec.from_config(self.config["checkpoint"], scale=scale)

    @property
    def save_ranks(self) -> int:
        """How many ranks save: those of the configuration divided by the workload's scale."""
        world_size = self.config["world_size"]
        ranks = int(self.config["ranks"] if world_size is None else world_size)
        return max(min(ranks, _LEAST_RANKS), round(ranks / float(self.config["workload"]["scale"])))

    @property
    def load_ranks(self) -> int:
        """How many ranks load."""
        if self.action is not Action.RESHARD:
            return self.save_ranks
        ranks = self.config["load_ranks"]
        if ranks is None or ranks == self.save_ranks:
            raise ConfigurationError(
                f"load_ranks={'null' if ranks is None else ranks}: action=reshard loads by another number of ranks "
                f"than the {self.save_ranks} that save: add load_ranks={self.save_ranks * 2}"
            )
        return int(ranks)

    @property
    def processes(self) -> int:
        """How many measured processes there are: those that save are the first ones, and so are those that load."""
        return max(self.save_ranks, self.load_ranks)

    @property
    def steps(self) -> int | None:
        """How many checkpoints are measured, None for as many as ``min_measured_s`` takes."""
        epochs, steps = self.config["epochs"], self.config["steps"]
        number = steps if epochs is None else epochs
        return None if number == "auto" else int(number)

    @property
    def scheme(self) -> str:
        """What kind of address the client is to serve."""
        if self.config["checkpoint"]["storage"] == "disk":
            return "file"
        return str(self.config["target"]["scheme"])

    @property
    def client(self) -> Component:
        """The client under comparison, with as many threads as the configuration says."""
        client, threads = self.component("client"), self.config["thread_count"]
        if threads is None:
            return client
        if "thread_count" not in client.options:
            raise ConfigurationError(
                f"thread_count={threads}: client={client.name} has no option thread_count: leave it out, or name it in "
                "the options of the client's file"
            )
        return replace(client, options={**client.options, "thread_count": threads})

    def own_parameters(self) -> dict[str, Any]:
        """What is saved, by how many ranks, how often, and how; of the keys that one action has, those of this one."""
        config, workload = self.config, self.config["workload"]
        found = CheckpointingSettings.own_parameters(self) | {"ranks": self.save_ranks}
        _ = self.client  # its own check
        if self.action is Action.RESHARD:
            found["load_ranks"] = self.load_ranks
        else:
            _ = self.load_ranks
        if self.action is Action.ASYNC_SAVE:
            found |= {name: config[name] for name in ("async_checkpointer", "reuse_stager")}
        if self.action in (Action.SAVE, Action.ASYNC_SAVE):
            found["verify"] = config["verify"]
        if config["thread_count"] is not None:
            found["thread_count"] = config["thread_count"]
        if config["path"] is not None:
            found["path"] = str(self.local_root)
        if config["steps_per_save"]:
            found |= {name: config[name] for name in ("steps_per_save", "step_time_s")}
        if self.action is Action.SAVES_THEN_LOADS and self.steps is None:
            raise ConfigurationError(
                "steps=auto: action=saves_then_loads keeps every checkpoint until it is loaded, and so has to be told "
                "their number: add steps=10"
            )
        if self.action is Action.SAVES_THEN_LOADS and config["save_only_latest"]:
            raise ConfigurationError(
                "save_only_latest=true: action=saves_then_loads loads every checkpoint after the last one was saved, "
                "and none but that would be there: leave save_only_latest out"
            )
        if workload["name"] != "none" or workload["scale"] != 1:
            found |= {f"workload.{name}": workload[name] for name in ("name", "scale")}
        return found

    @property
    def state_copies(self) -> int:
        """How often the state is in a machine's memory at once: a rank has its part, two copies of it, and what it
        loads into.
        """
        if self.replicated:
            return STATE_COPIES * self.ranks_of_a_node
        return -(-STATE_COPIES // int(self.config["nodes"]))

    @property
    def ranks_of_a_node(self) -> int:
        """How many of the measured processes are on one machine."""
        return self.processes // int(self.config["nodes"])

    @property
    def testbed_copies(self) -> int:
        """How often the testbed holds it."""
        kept = self.steps if self.action is Action.SAVES_THEN_LOADS and self.steps else 1
        return TESTBED_COPIES - 1 + kept

    def check_ranks(self) -> None:
        """Raise where several ranks cannot do it, or there is no GPU for each."""
        if self.config["disable_multipart"]:
            raise PreflightError("disable_multipart=true: no writer of distributed checkpoints can be told so")
        if self.config["backend"] == "nccl":
            gpus = Gpus()
            found = gpus.count
            gpus.close()
            if found < self.ranks_of_a_node:
                raise PreflightError(
                    f"backend=nccl needs a GPU for each of the {self.ranks_of_a_node} ranks of a machine, and {found} "
                    "can be used here: lower ranks, or take backend=gloo"
                )
