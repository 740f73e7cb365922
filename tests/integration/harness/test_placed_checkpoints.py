"""Ranks measure every action of distributed checkpoints: who saves and loads, what is counted, and what is left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from forked_programs import start

from bucketbench.checkpointing.course import Action
from bucketbench.checkpointing.distributed_job import DistributedCheckpointingJob
from bucketbench.checkpointing.state import StateSpec
from bucketbench.clients.protocol import Target
from bucketbench.job.description import Component
from buckettestbed.launch import RunningTestbed, launch_testbed

PROGRAM = Path(__file__).with_name("placed_program.py")
IMPORTS = (
    "torch._dynamo",
    "torch.distributed.tensor",
    "bucketbench.checkpointing.distributed",
    "bucketbench.components",
    "bucketbench.clients.dcp.torchbucket",
    "bucketbench.clients.dcp.boot_disk",
)
STATE = StateSpec(model="tensors", layers=None, tensors=7, size_bytes=6 << 20, seed=0)
ADAMW = StateSpec(model="tensors", layers=None, tensors=5, size_bytes=2 << 20, seed=0, optimizer="adamw")
TENSORS = 7
WORLD = 3


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], opaque_etags=True) as running:
        yield running


def job(testbed: RunningTestbed, local: Path, *, client: str = "torchbucket.Torchbucket", **fields: Any) -> Any:
    is_ours = client.startswith("torchbucket")
    # A second request for a late read would count among the bytes that are sent.
    options = {"hedge_share": 0} if is_ours else {}
    options |= fields.pop("options", {})
    return asdict(
        DistributedCheckpointingJob(**{
            "client": Component(name="a", target=f"bucketbench.clients.dcp.{client}", options=options),
            "target": Target(
                scheme="s3", bucket="data", prefix="p/", endpoint=testbed.s3_endpoint, region="us-east-1",
                path_style=True, anonymous=True,
            ),
            "min_measured_s": 1.0, "admin_url": testbed.admin, "steps": 1, "save_only_latest": False,
            "clear_kernel_cache": False, "multipart": True, "warmup": False, "local_directory": str(local),
            "state": STATE, "action": Action.SAVE_AND_LOAD, "save_ranks": WORLD, "load_ranks": WORLD, "backend": "gloo",
            "async_checkpointer": "thread", "reuse_stager": False, "verify": True, "steps_per_save": 0,
            "step_time_s": 0.01, **fields,
        })
    )  # fmt: skip


def jobs_of(testbed: RunningTestbed, directory: Path) -> list[tuple[str, str, Any]]:
    """A job of each action, and of each placement."""

    def a_job(**fields: Any) -> Any:
        return job(testbed, directory / "local", **fields)

    few_to_all = {"action": Action.RESHARD, "save_ranks": 2, "state": ADAMW}
    all_to_few = {"action": Action.RESHARD, "load_ranks": 2}
    boot = str(directory / "boot")
    kept = Target(scheme="file", bucket="", prefix=f"{str(directory / 'kept').strip('/')}/")
    return [
        ("2 to 3", "sharded", a_job(**few_to_all)),
        ("3 to 2", "sharded", a_job(**all_to_few)),
        ("3 to 2 replicas", "replicated", a_job(**all_to_few, options={"read_once": True})),
        ("async", "sharded", a_job(action=Action.ASYNC_SAVE, steps_per_save=2, steps=2, reuse_stager=True)),
        ("save", "sharded", a_job(action=Action.SAVE, target=kept)),
        ("load", "sharded", a_job(action=Action.LOAD, target=kept)),
        ("boot disk", "dealt", a_job(action=Action.LOAD, client="boot_disk.BootDisk", local_directory=boot)),
    ]


@pytest.fixture(scope="module")
def found(testbed: RunningTestbed, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What each rank has found of each job."""
    directory = tmp_path_factory.mktemp("placed")
    jobs = json.dumps(jobs_of(testbed, directory))
    arguments = (directory / "rendezvous", directory / "records", jobs)
    running = [start(PROGRAM, rank, WORLD, *arguments, imports=IMPORTS) for rank in range(WORLD)]
    ended = [one.wait() for one in running]
    assert [one.returncode for one in ended] == [0] * WORLD, ended[0].stderr + ended[1].stderr
    told = [json.loads(one.stdout.splitlines()[-1]) for one in ended]
    return {name: [one[name] for one in told] for name in told[0]}


def kinds(found: list[Any]) -> list[list[str]]:
    """What each rank has recorded."""
    return [[one["kind"] for one in rank["operations"]] for rank in found]


def counted(found: list[Any], kind: str) -> int:
    return sum(one["content_bytes"] for rank in found for one in rank["operations"] if one["kind"] == kind)


def wire(found: list[Any], kind: str) -> int:
    (bytes_on_wire,) = [one["wire_bytes"] for one in found[0]["operations"] if one["kind"] == kind]
    return int(bytes_on_wire)


def test_what_is_loaded_is_what_was_saved_by_every_action(found: dict[str, list[Any]]) -> None:
    assert {name: ranks[0]["failure"] for name, ranks in found.items() if ranks[0]["failure"]} == {}
    assert all(ranks[0]["verification"]["checked"] for ranks in found.values())


def test_only_ranks_that_save_or_load_record_that_they_did(found: dict[str, list[Any]]) -> None:
    assert kinds(found["2 to 3"]) == [["save", "load"], ["save", "load"], ["load"]]
    assert kinds(found["3 to 2"]) == [["save", "load"], ["save", "load"], ["save"]]
    assert kinds(found["save"]) == [["save"]] * WORLD
    assert kinds(found["load"]) == [["load"]] * WORLD
    assert kinds(found["async"]) == [["save", "stage", "copy", "train"] * 2] * WORLD


def test_every_byte_is_counted_once_and_little_more_is_sent(found: dict[str, list[Any]]) -> None:
    for name in ("2 to 3", "3 to 2", "3 to 2 replicas"):
        ranks, state_bytes = found[name], (ADAMW if name == "2 to 3" else STATE).total_bytes
        assert counted(ranks, "save") == counted(ranks, "load") == state_bytes, name
        assert state_bytes < wire(ranks, "save") < 1.05 * state_bytes, name
        assert state_bytes < wire(ranks, "load") < 1.1 * state_bytes, name


def test_a_load_tells_whether_it_has_found_a_save(found: dict[str, list[Any]], testbed: RunningTestbed) -> None:
    assert found["load"][0]["details"]["loaded"] == "found"
    assert found["boot disk"][0]["details"]["loaded"].startswith("saved first")
    assert found["boot disk"][0]["verification"]["checked"] == TENSORS
    assert testbed.object_counts()["data"] == 0, "nothing is left in the bucket"
