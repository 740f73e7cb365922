"""Sweeps whose testbeds keep a log of requests, and the plan of what is measured in each scenario."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from bucketbench.cli import main
from bucketbench.job import testbeds
from buckettestbed.launch import RunningTestbed, launch_testbed
from buckettestbed.serving.log import LoggedRequest

__all__ = ["LOG_FILE", "PLANS", "Plan", "Sweep", "clients_of"]

_CONFIGURATION: Final = Path(__file__).resolve().parents[2] / "conf"
LOG_FILE: Final = "requests.json"
_LOG_REQUESTS: Final = 200_000  # no sweep here makes a tenth of them

# So slow that a client's own work disappears beside it: what is timed takes eight seconds and more, and a minute and
# more of the clients that start processes of their own while it is.
_SLOW: Final = ("network.first_byte_s=0.05", "network.total_bytes_per_s=2097152")
_TAR_SHARDS: Final = (
    "data=tar_shards",
    "data.num_samples=8",
    "data.samples_per_shard=4",
    "data.sample_size=8MiB",  # so large that the headers of their members are below a thousandth
    "data.size_distribution=constant",
    "dataloader.num_workers=2",
    "dataloader.batch_size=1",
    "warmup_samples=2",
    "epochs=1",
)
# A last page of one name, so that the client has nothing left to do when the last answer has come.
_NAMES: Final = ("names.count=9001", "passes=1")
_CHECKPOINT: Final = (
    "checkpoint=tensors",
    "checkpoint.tensors=4",
    "checkpoint.size=16MiB",  # what surrounds the tensors in a file is far below a thousandth of this
    "steps=1",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How clients of a scenario are measured.

    Args:
        title: what the page calls it.
        scenario: the scenario's name.
        clients: the folder of its clients in conf/.
        overrides: what is measured.
        network: how slow the network is.
        samples: of data sets, which clients: those that read ``objects``, or ``members`` of tar shards.
        only: the clients that are measured so, and not by another plan of this scenario; none: all others.
    """

    title: str
    scenario: str
    clients: str
    overrides: tuple[str, ...]
    network: tuple[str, ...] = _SLOW
    samples: str = "objects"
    only: tuple[str, ...] = ()


PLANS: Final = (
    Plan(
        title="dataset",
        scenario="dataset",
        clients="dataset",
        overrides=(
            "data.num_samples=64",
            "data.sample_size=256KiB",
            "dataloader.batch_size=8",
            "warmup_samples=16",
            "epochs=1",
        ),
    ),
    Plan(
        title="dataset in tar shards",
        scenario="dataset",
        clients="dataset",
        overrides=_TAR_SHARDS,
        network=("network.first_byte_s=0.05", "network.total_bytes_per_s=6291456"),
        samples="members",
    ),
    Plan(
        title="dataset in tar shards by processes",
        scenario="dataset",
        clients="dataset",
        overrides=(*_TAR_SHARDS, "time_limit_s=1200"),
        network=("network.first_byte_s=0.05", "network.total_bytes_per_s=786432"),
        samples="members",
        only=("webdataset-aws",),
    ),
    Plan(
        title="listing",
        scenario="listing",
        clients="listing",
        network=("network.first_byte_s=2.0",),
        overrides=_NAMES,
    ),
    Plan(
        title="listing by processes",
        scenario="listing",
        clients="listing",
        network=("network.first_byte_s=8.0",),
        overrides=_NAMES,
        only=("dataflux-processes",),
    ),
    *(
        Plan(title=scenario, scenario=scenario, clients=scenario, overrides=_CHECKPOINT)
        for scenario in ("pytorch_checkpointing", "lightning_checkpointing")
    ),
    Plan(
        title="lightning_fsdp",
        scenario="lightning_fsdp",
        clients="lightning_fsdp",
        # A trainer's own state is saved with it.
        network=("network.first_byte_s=0.05", "network.total_bytes_per_s=4194304"),
        overrides=(*_CHECKPOINT, "checkpoint.size=32MiB"),
    ),
    *(
        Plan(title=scenario, scenario=scenario, clients="dcp", overrides=_CHECKPOINT)
        for scenario in ("dcp_simulated", "dcp_ddp", "dcp_fsdp")
    ),
)


@dataclass
class Sweep:
    """A sweep of one scenario at one target, and the log of its testbeds.

    Args:
        plan: what is measured.
        target: ``local`` or ``local_gs``.
        clients: their names.
        directory: where the results go; the testbed's objects are kept beside it.
        fast: whether the network is as fast as the machine; durations say nothing then.
    """

    plan: Plan
    target: str
    clients: list[str]
    directory: Path
    fast: bool = False
    log: list[LoggedRequest] = field(default_factory=list)
    clock_offset_s: float = 0.0

    def run(self) -> int:
        """Run it in this process, and return its exit status."""
        launched = testbeds.launch_testbed
        testbeds.launch_testbed = self._logging
        self.clock_offset_s = time.time() - time.monotonic()
        overrides = [
            f"target={self.target}",
            f"client={','.join(self.clients)}",
            "repeat=0",
            *self.plan.overrides,
            "network=none",
            *(() if self.fast else self.plan.network),
            f"cache_dir={self.directory.parents[1] / 'cache'}",
            f"hydra.sweep.dir={self.directory}",
            "hydra.callbacks.results.html=false",
        ]
        try:
            with redirect_stdout(io.StringIO()):
                return main(["run", self.plan.scenario, *overrides])
        finally:
            testbeds.launch_testbed = launched
            if self.directory.exists():
                kept = {"clock_offset_s": self.clock_offset_s, "requests": [asdict(one) for one in self.log]}
                (self.directory / LOG_FILE).write_text(json.dumps(kept), encoding="utf-8")

    def read(self) -> None:
        """Take the log that an earlier ``run`` has left."""
        kept = json.loads((self.directory / LOG_FILE).read_bytes())
        self.clock_offset_s = kept["clock_offset_s"]
        self.log = [LoggedRequest.from_mapping(one) for one in kept["requests"]]

    @contextlib.contextmanager
    def _logging(self, **options: Any) -> Iterator[RunningTestbed]:
        with launch_testbed(log_requests=_LOG_REQUESTS, **options) as testbed:
            try:
                yield testbed
            finally:
                self.log += testbed.requests()


def clients_of(plan: Plan, scheme: str) -> list[str]:
    """The clients that speak a scheme.

    Left out are those that need a mounted bucket or a program that is not installed, and those that deliver what they
    have decoded, whose bytes are not the objects'.
    """
    elsewhere = {name for other in PLANS if other.scenario == plan.scenario for name in other.only}
    found = []
    for file in sorted((_CONFIGURATION / plan.clients / "client").glob("*.yaml")):
        client = yaml.safe_load(file.read_text(encoding="utf-8"))
        asked = file.stem in plan.only if plan.only else file.stem not in elsewhere
        fits = scheme in client["schemes"] and client.get("samples", "objects") == plan.samples
        if asked and fits and _can_run(client):
            found.append(file.stem)
    return found


def _can_run(client: Mapping[str, Any]) -> bool:
    program = client["options"].get("program")
    installed = program is None or shutil.which(program) is not None
    return client["name"] != "mount" and not client.get("decoded") and installed
