"""A scenario in one module: schema, preparation, measurement, figures and table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bucketbench.components import build
from bucketbench.configuration.schema import ScenarioConfig
from bucketbench.configuration.settings import JobSettings
from bucketbench.configuration.values import whole
from bucketbench.job.description import Job
from bucketbench.ranks import Ranks
from bucketbench.records import Operation, OperationKind, Phase
from bucketbench.scenarios.presentation import Column, TableForm
from bucketbench.scenarios.recording import Measurement, Recorder
from bucketbench.scenarios.scenario import Places, Scenario
from bucketbench.scenarios.verification import VerificationCounts
from bucketbench.statistics import Better, FigureKind, FigureSet


@dataclass(kw_only=True)
class RoundsConfig(ScenarioConfig):
    scenario: str = "rounds"
    times: int = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundsSettings(JobSettings):
    schema: ClassVar = RoundsConfig
    rules: ClassVar = {"times": whole(1, 100)}
    prefix = "rounds/"

    def own_parameters(self) -> dict[str, Any]:
        return {}

    def check_fits(self, *, memory_bytes: int, free_disk_bytes: int) -> None:
        pass


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundsJob(Job):
    rounds: int


class RoundsPreparation:
    def __init__(self, directory: Any, places: Places, /) -> None:
        self._places = places

    def prepare(self, settings: RoundsSettings) -> None:
        self._places.testbed(settings)

    def job(self, settings: RoundsSettings) -> RoundsJob:
        target, rounds = self._places.target(settings), settings.config["times"]
        return RoundsJob(client=settings.client, target=target, min_measured_s=1, admin_url=None, rounds=rounds)


def measure(fields: Mapping[str, Any], recorder: Recorder, ranks: Ranks) -> Measurement:
    job = RoundsJob.from_json(fields)
    client = build(job.client)
    for number in range(job.rounds):
        started_s = time.monotonic()
        client.wait(job.target)
        times = {"started_s": started_s, "ended_s": time.monotonic()}
        kind, phase = OperationKind.EPOCH, Phase.MEASURE
        recorder.add([Operation(kind=kind, phase=phase, epoch=number, worker=-1, samples=1, **times)])
    nothing_wrong = VerificationCounts(checked=job.rounds, mismatched=0, missing=0, duplicated=0, errors=0)
    return Measurement(verification=nothing_wrong, server=None, details={})


def rounds_per_s(operations: Any, usage: Any, server: Any) -> dict[str, float | str]:
    wall_s = sum(operation.duration_s for operation in operations)
    return {"rounds_per_s": len(operations) / wall_s, "wall_s": wall_s, "errors": 0}


SCENARIO = Scenario(
    name="rounds",
    settings=RoundsSettings,
    preparation="rounds.scenario.RoundsPreparation",
    measurement="rounds.scenario.measure",
    figures=FigureSet(
        kinds={
            "rounds_per_s": FigureKind("rounds/s", Better.HIGHER, contest="speed"),
            "wall_s": FigureKind("s", Better.LOWER, contest="brevity"),
            "errors": FigureKind("rounds", Better.LOWER),
        },
        values=rounds_per_s,
    ),
    table=TableForm(
        columns=(Column(heading="rounds/s", figure="rounds_per_s", spread=True),),
        legend="Rounds of doing nothing.",
        counted="rounds",
        headline=("rounds_per_s",),
        duration="wall_s",
        medians=("rounds_per_s",),
        spreads=("rounds_per_s",),
    ),
    keeps_objects=False,
)
