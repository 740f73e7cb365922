"""A training that is killed and resumed from the bucket has the losses of one that was not, bit for bit."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from forked_programs import Ended, run

import torchbucket

PROGRAM = Path(__file__).with_name("training_program.py")


def test_a_killed_training_goes_on_as_if_nothing_had_been(bucket, tmp_path):
    def train(mode: str) -> Ended:
        return run(
            PROGRAM,
            bucket.uri,
            bucket.testbed.s3_endpoint,
            mode,
            tmp_path,
            imports=("lightning.pytorch",),
        )

    assert train("killed").returncode == -signal.SIGKILL
    names = bucket.names()
    assert "last.ckpt" in names
    saved_at = torchbucket.load(f"{bucket.uri}/last.ckpt", config=bucket.config)["global_step"]
    assert saved_at in (6, 9, 12)
    ended = train("resumed")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert list(found["whole"]) == [str(step) for step in range(16)]
    assert list(found["resumed"]) == [str(step) for step in range(saved_at, 16)]
    assert found["resumed"] == {step: loss for step, loss in found["whole"].items() if int(step) >= saved_at}
    first, last = (float.fromhex(found["whole"][step]) for step in ("0", "15"))
    assert last < first
