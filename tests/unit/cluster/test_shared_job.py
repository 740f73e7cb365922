"""One job on several nodes: node 0 gets the records of all, and no node waits for ranks that have failed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from composition import points_of_scenario
from met_nodes import Clock, meetings, together

from bucketbench.cluster import shared_job
from bucketbench.cluster.ports import held_port
from bucketbench.cluster.shared_job import help_with, lead
from bucketbench.configuration.settings import JobSettings
from bucketbench.job.description import Description
from bucketbench.job.process import NodeShare, ProcessEnd
from bucketbench.results.raw import read_outcome

OK = ProcessEnd(returncode=0, timed_out=False, wall_s=1.0)
SECRET = "a-secret-that-a-client-has-logged"
Ranks = Callable[[Path, NodeShare, Callable[[], str | None]], ProcessEnd]


@pytest.fixture(scope="module")
def settings() -> JobSettings:
    overrides = ("repeat=0", "client=torchbucket", "target=s3", "target.bucket=a-bucket", "nodes=2", "ranks=4")
    (point,) = points_of_scenario("dcp_simulated", *overrides)
    return point


def leave(directory: Path, share: NodeShare, *, reason: str | None = None) -> ProcessEnd:
    """What the measured ranks of a node leave when they come to their end."""
    for rank in (2 * share.index, 2 * share.index + 1):
        folder = directory / "ranks" / str(rank)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "operations.jsonl").write_text(f"{rank}")
        outcome = {"status": "ok" if reason is None else "failed", "reason": reason, "details": {}}
        (folder / "outcome.json").write_text(json.dumps(outcome))
    (directory / "benchmark.log").write_text(f"log of {share.index}: {SECRET}")
    return OK if reason is None else ProcessEnd(returncode=1, timed_out=False, wall_s=1.0)


def run_both(settings: JobSettings, directory: Path, first: Ranks, second: Ranks, **job: Any) -> tuple[Any, Any]:
    """What node 0 says of why the job ended, and what the other node returns."""
    met = meetings(2)
    description = Description(
        measurement="of node 0", search_path=(), requires=(), job={"client": {"target": "of node 0"}, **job}
    )

    def lead_it() -> str:
        return lead(
            met[0], settings, number=5, directory=directory, description=description,
            own_directories=job.get("own", ()), run=lambda share, given_up: first(directory, share, given_up),
        )  # fmt: skip

    def help_it() -> None:
        def run_in(own: Path, own_settings: JobSettings) -> shared_job.RunRanks:
            assert own_settings is settings
            return lambda share, given_up: second(own, share, given_up)

        help_with(met[1], settings, number=5, run_in=run_in)

    answers = together(lead_it, help_it)
    return answers[0], answers[1]


def test_node_0_has_the_records_of_all_ranks_and_the_logs_of_all_nodes(
    settings: JobSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_CLIENTS_TOKEN", SECRET)
    shares: list[NodeShare] = []
    described: list[Description] = []

    def ranks(directory: Path, share: NodeShare, given_up: object) -> ProcessEnd:
        shares.append(share)
        if share.index:
            described.append(Description.read(directory))
        return leave(directory, share)

    reason, helped = run_both(settings, tmp_path, ranks, ranks, steps=3)
    assert helped is None
    assert read_outcome(tmp_path, otherwise=reason)["status"] == "ok"
    assert [(tmp_path / "ranks" / str(rank) / "operations.jsonl").read_text() for rank in range(4)] == list("0123")
    assert (tmp_path / "benchmark.node-1.log").read_text() == "log of 1: [secret]"
    assert {(share.count, share.endpoint, share.job_id) for share in shares} == {
        (2, shares[0].endpoint, shares[0].job_id)
    }
    assert sorted(share.index for share in shares) == [0, 1]
    # What is run is said by the node's own configuration, and what for by node 0.
    (description,) = described
    assert description.measurement == "bucketbench.scenarios.dcp_simulated.measurement.measure"
    assert description.job["client"]["target"] == settings.client.target
    assert description.job["steps"] == 3


def test_ranks_that_fail_on_one_node_end_those_of_the_other(settings: JobSettings, tmp_path: Path) -> None:
    def failing(directory: Path, share: NodeShare, given_up: object) -> ProcessEnd:
        return leave(directory, share, reason="RuntimeError: no network")

    def waiting(directory: Path, share: NodeShare, given_up: Callable[[], str | None]) -> ProcessEnd:
        while (reason := given_up()) is None:
            threading.Event().wait(0.01)
        return ProcessEnd(returncode=-9, timed_out=False, wall_s=1.0, given_up=reason)

    for first, second, failed in ((waiting, failing, 1), (failing, waiting, 0)):
        directory = tmp_path / str(failed)
        reason, helped = run_both(settings, directory, first, second)
        assert helped is None
        outcome = read_outcome(directory, otherwise=reason)
        assert outcome["status"] == "failed"
        assert f"ranks {2 * failed} and {2 * failed + 1}: RuntimeError: no network" in outcome["reason"]


def test_a_rank_of_another_node_that_leaves_nothing_is_missed(settings: JobSettings, tmp_path: Path) -> None:
    killed = ProcessEnd(returncode=-9, timed_out=False, wall_s=1.0)
    reason, _ = run_both(
        settings, tmp_path, lambda directory, share, _: leave(directory, share), lambda directory, share, _: killed
    )
    outcome = read_outcome(tmp_path, otherwise=reason)
    assert outcome["status"] == "failed"
    assert outcome["reason"].startswith("node 1: the measured process was ended by SIGKILL")


def test_a_node_that_is_lost_in_a_job_fails_it_and_is_named(settings: JobSettings, tmp_path: Path) -> None:
    first, second = meetings(2, clock=Clock())
    second.tell("job/0/answer/1", {"host": "b", "problem": None})
    reason = lead(
        first, settings, number=0, directory=tmp_path,
        description=Description(measurement="m", search_path=(), requires=(), job={}), own_directories=(),
        run=lambda share, given_up: leave(tmp_path, share),
    )  # fmt: skip
    outcome = read_outcome(tmp_path, otherwise=reason)
    assert outcome["status"] == "failed"
    assert outcome["reason"].startswith("node 1 was waited for to send its records and did not answer within")


def test_an_interrupted_node_lets_the_other_one_go(settings: JobSettings, tmp_path: Path) -> None:
    seen: list[str | None] = []

    def interrupted(directory: Path, share: NodeShare, given_up: object) -> ProcessEnd:
        raise KeyboardInterrupt

    def waiting(directory: Path, share: NodeShare, given_up: Callable[[], str | None]) -> ProcessEnd:
        while not seen or seen[-1] is None:
            seen.append(given_up())
            threading.Event().wait(0.01)
        return ProcessEnd(returncode=-9, timed_out=False, wall_s=1.0, given_up=seen[-1])

    reason, helped = run_both(settings, tmp_path, interrupted, waiting)
    assert isinstance(reason, KeyboardInterrupt)
    assert helped is None
    assert seen[-1] == "ended, since the ranks on node 0 had failed"


def test_a_helper_removes_the_directories_of_the_job_and_none_that_it_had(
    settings: JobSettings, tmp_path: Path
) -> None:
    made, kept = tmp_path / "made", tmp_path / "kept"
    kept.mkdir()

    def ranks(directory: Path, share: NodeShare, given_up: object) -> ProcessEnd:
        if share.index:
            made.mkdir()
        return leave(directory, share)

    reason, helped = run_both(settings, tmp_path / "job", ranks, ranks, own=[str(made), str(kept)])
    assert (reason, helped) == (OK.reason, None)
    assert not made.exists()
    assert kept.exists()


def test_a_testbed_that_another_node_cannot_reach_is_told_with_the_remedy(tmp_path: Path) -> None:
    overrides = ("repeat=0", "client=torchbucket", "nodes=2", "ranks=2")
    (local,) = points_of_scenario("dcp_simulated", *overrides)
    begun: list[int] = []

    def ranks(directory: Path, share: NodeShare, given_up: Callable[[], str | None]) -> ProcessEnd:
        begun.append(share.index)
        while (reason := given_up()) is None:
            threading.Event().wait(0.01)
        return ProcessEnd(returncode=-9, timed_out=False, wall_s=1.0, given_up=reason)

    with held_port() as closed:
        endpoint = f"http://127.0.0.1:{closed}"
        reason, _ = run_both(local, tmp_path, ranks, ranks, target={"endpoint": endpoint})
    assert begun == [0]
    outcome = read_outcome(tmp_path, otherwise=reason)
    assert f"node 1: node 0's testbed at 127.0.0.1:{closed} cannot be reached (Connection refused)" in outcome["reason"]
    assert "target.listen=ADDRESS" in outcome["reason"]
