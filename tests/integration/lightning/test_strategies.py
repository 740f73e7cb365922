"""The strategies: ranks that train together save, go on, prune and hear of failures, whoever saves and loads."""

from __future__ import annotations

import itertools
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from forked_programs import run, start
from lightning_page import SHARDED, blocks

from torchbucket.dcp import checkpoints, is_complete, latest, verify

PROGRAM = Path(__file__).with_name("strategy_program.py")
IMPORTS = ("lightning.pytorch", "torchbucket.lightning.strategies", "torchbucket.fsspec")
OURS = {".metadata", ".torchbucket.json", "meta.pt"}
_numbers = itertools.count()


@pytest.fixture
def ranks(bucket, tmp_path) -> Callable[..., list[Any]]:
    """Has so many ranks do something; returns what each has found, or the signal that killed it."""

    def act(world_size: int, kind: str, *actions: str, uri: str | None = None) -> list[Any]:
        rendezvous = tmp_path / f"rendezvous-{next(_numbers)}"
        endpoint = bucket.testbed.s3_endpoint
        running = [
            start(PROGRAM, rank, world_size, rendezvous, endpoint, uri or bucket.uri, kind, *actions, imports=IMPORTS)
            for rank in range(world_size)
        ]
        found: list[Any] = []
        for one in running:
            ended = one.wait()
            assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
            found.append(signal.SIGKILL if ended.returncode else json.loads(ended.stdout.splitlines()[-1]))
        return found

    return act


def of_checkpoints(bucket) -> dict[str, set[str]]:
    """The files of each directory."""
    found: dict[str, set[str]] = {}
    for name in bucket.names():
        directory, _, file = name.partition("/")
        found.setdefault(directory, set()).add(file)
    return found


@pytest.mark.parametrize("kind", [pytest.param("parallel", marks=pytest.mark.nightly), "parallel-async"])
def test_a_killed_training_goes_on_as_if_nothing_had_been(bucket, ranks, kind):
    assert ranks(2, kind, "train_until_killed") == [signal.SIGKILL] * 2
    found = of_checkpoints(bucket)
    shards = {"__0_0.distcp", "__1_0.distcp"}
    if kind == "parallel":
        assert found == {"step=4.ckpt": OURS | shards}  # and the one before it is removed
    newest = latest(bucket.uri, config=bucket.config)
    assert newest in (f"{bucket.uri}/step=2.ckpt", f"{bucket.uri}/step=4.ckpt")
    ended = [of_rank["resume"] for of_rank in ranks(2, kind, "resume")]
    step = int(re.findall(r"step=(\d)", newest)[0])
    for of_rank in ended:
        assert of_rank["from"] == of_rank["named"] == newest
        assert list(of_rank["resumed"]) == [str(number) for number in range(step, 8)]
        assert of_rank["resumed"] == {name: loss for name, loss in of_rank["whole"].items() if int(name) >= step}
        assert len(set(of_rank["whole"].values())) == 8
    assert ended[0]["whole"] != ended[1]["whole"]
    # What the run went on from is kept beside its own newest; a removal may have been killed before it began.
    complete = {one.name for one in checkpoints(bucket.uri, config=bucket.config) if one.is_complete}
    assert complete - ({"step=2.ckpt"} if kind == "parallel-async" else set()) >= {"step=8.ckpt"}
    assert newest.rpartition("/")[2] in complete
    assert "step=6.ckpt" not in complete
    assert verify(f"{bucket.uri}/step=8.ckpt", config=bucket.config) == []


# PyTorch's first FSDP cannot gather a whole state on a host, and so save none; it loads the other's.
@pytest.mark.parametrize(
    ("kind", "loaded_by"),
    [
        ("parallel", [(1, "parallel"), (3, "parallel")]),
        ("parallel-full-async", [(3, "parallel-full"), (2, "fsdp-full")]),
        ("fsdp-async", [(3, "fsdp")]),
    ],
)
def test_what_two_ranks_save_others_load(bucket, ranks, kind, loaded_by):
    uri = f"{bucket.uri}/a.ckpt"
    saved = ranks(2, kind, "save", uri=uri)
    assert len({of_rank["save"] for of_rank in saved}) == 1
    for world_size, by in loaded_by:
        assert ranks(world_size, by, "load", uri=uri) == [{"load": saved[0]["save"]}] * world_size
    assert is_complete(uri, config=bucket.config) == ("full" not in kind)
    assert ("a.ckpt" in bucket.names()) == ("full" in kind)


@pytest.mark.parametrize("kind", ["parallel", "fsdp"])
def test_lightning_s_own_strategy_reads_ours_and_ours_its_own(ranks, tmp_path, kind):
    found = [of_rank["cross"] for of_rank in ranks(2, kind, "cross", uri=str(tmp_path / "saved"))]
    assert found[0] == found[1]
    assert len(found[0]) == 4
    assert len(set(found[0].values())) == 1
    shards = {"__0_0.distcp", "__1_0.distcp"}
    files = {path.name: {file.name for file in path.iterdir()} for path in (tmp_path / "saved").iterdir()}
    assert files == {kind: OURS | shards, f"{kind}-own": {".metadata", "meta.pt"} | shards}


def test_one_kind_takes_the_other_s_place(bucket, ranks):
    uri = f"{bucket.uri}/a.ckpt"
    saved = ranks(1, "parallel", "save", uri=uri)[0]["save"]
    assert is_complete(uri, config=bucket.config)
    assert ranks(1, "parallel-full", "save", "load", uri=uri) == [{"save": saved, "load": saved}]
    assert bucket.names() == ["a.ckpt"]
    assert ranks(1, "parallel", "save", "load", "test", uri=uri) == [{"save": saved, "load": saved, "test": []}]
    assert is_complete(uri, config=bucket.config)


def test_the_last_one_is_found_by_its_name(bucket, ranks):
    found = ranks(1, "parallel-async", "resume_from_last")[0]["resume_from_last"]
    assert found["from"] == f"{bucket.uri}/last.ckpt"
    assert list(found["resumed"]) == ["2"]
    assert set(of_checkpoints(bucket)) == {
        "last.ckpt",
        "epoch=0-step=2.ckpt",
    }  # saved twice, since a bucket has no links


@pytest.mark.parametrize("kind", ["parallel", pytest.param("parallel-async", marks=pytest.mark.nightly)])
def test_a_failed_upload_is_raised_on_every_rank_and_leaves_no_checkpoint(bucket, ranks, kind):
    bucket.testbed.set_faults([{"kind": "error", "status": 403, "key": "*/__1_0.distcp", "methods": ["PUT"]}])
    for of_rank in ranks(2, kind, "train"):
        assert of_rank["train"]["error"] == "CheckpointException"
        assert of_rank["train"]["causes"] == {"1": "PermissionDeniedError"}
    assert latest(bucket.uri, config=bucket.config) is None
    assert "step=2.ckpt/.torchbucket.json" in bucket.names()  # a sign of whose the files are
    bucket.testbed.set_faults([])
    assert [of_rank["train"] for of_rank in ranks(2, kind, "train")] == [{"pinned": False}] * 2
    # The name was free for another save, and that one's checkpoint was removed for the newest.
    assert of_checkpoints(bucket) == {"step=8.ckpt": OURS | {"__0_0.distcp", "__1_0.distcp"}}


def test_what_fails_before_a_save_begins_is_raised_on_every_rank(bucket, ranks):
    refused = {"kind": "error", "status": 403}
    bucket.testbed.set_faults(
        [
            refused | {"key": "*/step=2/__0_0.distcp", "methods": ["PUT"]},
            refused | {"key": "*/kept/.metadata", "methods": ["DELETE"]},
        ]
    )
    actions = [
        "and_be_told_at_the_next",
        "where_the_rest_cannot_be_pickled",
        "where_one_has_no_memory",
        "after_a_removal_that_failed",
    ]
    told = ranks(2, "parallel-async", *(f"save_{action}" for action in actions))
    for of_rank in told:
        assert of_rank["save_and_be_told_at_the_next"]["causes"] == {"0": "PermissionDeniedError"}
    first, second = (of_rank["save_where_the_rest_cannot_be_pickled"] for of_rank in told)
    assert "lambda" in first["text"]
    assert second["error"] == "CheckpointError"
    assert "rank 0 has failed" in second["text"]
    assert "lambda" in second["text"]
    first, second = (of_rank["save_where_one_has_no_memory"] for of_rank in told)
    assert first["text"] == "rank 1 has failed, and so no rank goes on: MemoryError: for the copy"
    assert second["error"] == "MemoryError"
    first, second = (of_rank["save_after_a_removal_that_failed"] for of_rank in told)
    assert first["error"] == "PermissionDeniedError"
    assert second["text"].startswith("rank 0 has failed, and so no rank goes on: PermissionDeniedError: ")
    assert set(of_checkpoints(bucket)) == {"step=2", "kept"}  # what comes after a failure was not begun


def test_what_is_not_complete_is_not_loaded(bucket, ranks):
    bucket.testbed.set_faults([{"kind": "error", "status": 403, "key": "*/.metadata", "methods": ["PUT"]}])
    uri = f"{bucket.uri}/a.ckpt"
    ranks(1, "parallel", "save", uri=uri)
    bucket.testbed.set_faults([])
    told = ranks(2, "parallel", "load", uri=uri)
    assert told[0]["load"]["error"] == told[1]["load"]["error"] == "CheckpointError"
    assert "is not complete: .metadata is missing" in told[0]["load"]["text"]
    missing = ranks(1, "parallel", "load", uri=f"{uri}/nothing")[0]["load"]
    assert missing["error"] == "NotFoundError"


def test_the_example_of_the_page_runs(tmp_path):
    (example,) = (block for block in blocks() if SHARDED in block)
    program = tmp_path / "sharded.py"
    # gloo's threads can outlast their group, and abort an interpreter that ends
    program.write_text(f"{example}\nprint('done', flush=True)\n__import__('os')._exit(0)\n")
    ended = run(program, imports=IMPORTS)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("done\n")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_from_a_gpu_by_way_of_pinned_memory(bucket, ranks):
    assert ranks(1, "parallel-async", "train")[0]["train"] == {"pinned": True}
    found = ranks(1, "parallel-async", "resume")[0]["resume"]
    assert found["resumed"] == {step: loss for step, loss in found["whole"].items() if int(step) >= 8}
    uri = f"{bucket.uri}/a.ckpt"
    saved = ranks(1, "parallel", "save", "load", uri=uri)[0]
    assert saved["save"] == saved["load"]
