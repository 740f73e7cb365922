"""What a sweep makes of the actions of distributed checkpoints: its ranks, and the columns of its table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from stubbed_sweeps import StubbedHarness, leave_outcome

from bucketbench.job.description import OPERATIONS_FILE, USAGE_FILE, Description
from bucketbench.records import Operation, OperationKind, Phase, UsageSample

MIB = 1 << 20


def leaves(*kinds: OperationKind) -> Callable[[Path], None]:
    """A measured process that has saved, or loaded, once."""

    def leave(directory: Path) -> None:
        operations = [
            Operation(kind=kind, phase=Phase.MEASURE, epoch=0, worker=-1, started_s=1.0, ended_s=2.0 + number,
                      samples=1, content_bytes=8 * MIB, requests=3, wire_bytes=9 * MIB)
            for number, kind in enumerate(kinds)
        ]  # fmt: skip
        usage = [UsageSample(at_s=at_s, cpu_s=at_s, rss_bytes=MIB, processes=1) for at_s in (0.5, 5.0)]
        for name, records in ((OPERATIONS_FILE, operations), (USAGE_FILE, usage)):
            (directory / name).write_text("".join(f"{json.dumps(record.to_json())}\n" for record in records))
        leave_outcome(directory)

    return leave


def leaves_what_is_asked_for(directory: Path) -> None:
    action = Description.read(directory).job["action"]
    leaves(OperationKind.SAVE if action == "save" else OperationKind.LOAD)(directory)


def test_saves_and_loads_alone_have_columns_and_verdicts_of_their_own(harness: StubbedHarness) -> None:
    clients = ("torchbucket", "fsspec-s3fs")
    harness.worker.behaviours |= dict.fromkeys(clients, leaves_what_is_asked_for)
    done = harness.run("dcp_fsdp", f"client={','.join(clients)}", "action=save,load", "repeat=0", "checkpoint=small")
    assert done.status == 0, done.err
    save, load = done.out.partition("action=save")[2].partition("Medians over")[0].split("action=load")
    for own, other, section in (("save", "load", save), ("load", "save", load)):
        assert f"{own} throughput" in " ".join(section.split())
        assert other not in section
        assert "n/a" not in section
    figures = [job["figures"] for job in done.results["jobs"] if job["parameters"]["action"] == "load"]
    assert [(one["load_mibs"]["value"], one["read_amplification"]["value"]) for one in figures] == [(8, 9 / 8)] * 2


def test_a_resharding_job_is_started_with_the_larger_number_of_ranks(harness: StubbedHarness) -> None:
    harness.worker.behaviours["torchbucket"] = leaves(OperationKind.SAVE, OperationKind.LOAD)
    sweep = ["client=torchbucket", "action=reshard", "load_ranks=3,4", "repeat=0", "checkpoint=small", "thread_count=2"]
    done = harness.run("dcp_fsdp", *sweep)
    assert done.status == 0, done.err
    assert [job.ranks for job in harness.worker.started] == [3, 4]
    described = harness.worker.started[0].description.job
    assert (described["save_ranks"], described["load_ranks"], described["action"]) == (2, 3, "reshard")
    assert described["client"]["options"]["thread_count"] == 2
    assert "load_ranks=4" in done.out


def test_a_table_names_the_factor_of_a_workload(harness: StubbedHarness) -> None:
    harness.worker.behaviours["torchbucket"] = leaves(OperationKind.SAVE, OperationKind.LOAD)
    done = harness.run("dcp_simulated", "client=torchbucket", "workload=mlperf_8b", "repeat=0")
    assert done.status == 0, done.err
    assert "workload.name=mlperf_8b workload.scale=1024" in " ".join(done.out.split())
    (job,) = done.results["jobs"]
    assert (job["parameters"]["workload.scale"], job["parameters"]["ranks"]) == (1024, 2)
    assert [started.ranks for started in harness.worker.started] == [2]
