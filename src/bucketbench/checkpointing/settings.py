"""One point of a sweep that saves and loads checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from bucketbench.checkpointing.schema import RULES, CheckpointingConfig
from bucketbench.checkpointing.state import StateSpec
from bucketbench.configuration.schema import ScenarioConfig
from bucketbench.configuration.settings import JobSettings
from bucketbench.configuration.values import Rule
from bucketbench.errors import PreflightError
from bucketbench.scenarios.kernel_cache import require_clearing
from bucketbench.units import format_bytes

__all__ = ["STATE_COPIES", "TESTBED_COPIES", "CheckpointingSettings"]

_MEMORY_SHARE: Final = 0.8
"""The part of the memory that states may take. *Source*: ours; the rest is for the interpreters and the system."""

STATE_COPIES: Final = 4
"""What is in the measured process at once: the state, the loaded one, and two copies that many clients make of it.

*Source*: measured: clients that save and load by way of ``BytesIO`` grow by 1.3 to 3 times the checkpoint.
"""

TESTBED_COPIES: Final = 2
"""What the testbed holds: the checkpoint, and the one that takes its place while it arrives."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointingSettings(JobSettings):
    """The composed configuration of one job that saves and loads checkpoints, every value checked."""

    schema: ClassVar[type[ScenarioConfig]] = CheckpointingConfig
    rules: ClassVar[Mapping[str, Rule]] = RULES
    no_parameters: ClassVar[frozenset[str]] = frozenset({"prefix", "checkpoint.size"})

    @property
    def state(self) -> StateSpec:
        """What is saved."""
        return StateSpec.from_config(self.config["checkpoint"])

    @property
    def steps(self) -> int | None:
        """How many checkpoints are measured, None for as many as ``min_measured_s`` takes."""
        return None if self.config["steps"] == "auto" else int(self.config["steps"])

    @property
    def prefix(self) -> str:
        """What begins every key: the configured prefix, or one of the scenario's own."""
        configured = self.config["prefix"]
        return f"{str(configured).rstrip('/')}/" if configured else f"bucketbench/{self.scenario}/"

    def own_parameters(self) -> dict[str, Any]:
        """What is saved, how often, and how."""
        config, state = self.config, self.state
        return {
            "checkpoint.model": state.model,
            "checkpoint.layers": state.layers,
            "checkpoint.tensors": state.tensors,
            "checkpoint.size_bytes": state.total_bytes,
            "checkpoint.seed": state.seed,
            "steps": "auto" if self.steps is None else self.steps,
            "min_measured_s": config["min_measured_s"] if self.steps is None else None,
        }

    @property
    def state_copies(self) -> int:
        """How often the state is in memory at once."""
        return STATE_COPIES

    @property
    def testbed_copies(self) -> int:
        """How often the testbed holds it, where the target is one."""
        return TESTBED_COPIES

    def check_ranks(self) -> None:
        """Raise where several ranks cannot do it."""
        if self.config["ranks"] != 1:
            raise PreflightError(
                f"ranks={self.config['ranks']}: a checkpoint is saved and loaded by one process, leave ranks at 1"
            )

    def check_fits(self, *, memory_bytes: int, free_disk_bytes: int) -> None:
        """Raise where the state and its copies exceed the memory, or the kernel's cache cannot be dropped."""
        del free_disk_bytes
        self.check_ranks()
        if self.config["clear_kernel_cache"]:
            require_clearing()
        copies = self.state_copies + (self.testbed_copies if self.uses_testbed else 0)
        needed_bytes = self.state.total_bytes * copies
        if needed_bytes > memory_bytes * _MEMORY_SHARE:
            raise PreflightError(
                f"{self.state.words} can take {format_bytes(needed_bytes)}, {copies} times its size with the copies "
                f"of it{' and the testbed' if self.uses_testbed else ''}, more than {_MEMORY_SHARE:.0%} of "
                f"this machine's {format_bytes(memory_bytes)} of memory: choose a smaller one, such as "
                "checkpoint=transformer checkpoint.layers=10"
            )
