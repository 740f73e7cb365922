"""Two ranks of a trainer with every configured strategy get back what they saved, and hear of what is not there."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from forked_programs import start
from test_checkpoint_clients import BUCKET, target_of

from buckettestbed.launch import launch_testbed

PROGRAM = Path(__file__).with_name("served_strategies.py")
CONFIGURATIONS = Path(__file__).parents[3] / "conf" / "lightning_fsdp" / "client"
IMPORTS = ("lightning.pytorch", "torchbucket.lightning.strategies", "torchbucket.fsspec")


@pytest.mark.parametrize(
    ("scheme", "names"),
    [
        ("s3", ["torchbucket-async"]),
        pytest.param(
            "s3", ["torchbucket", "fsspec-s3fs", "fsspec-s3fs-tuned", "disk", "boot-disk"], marks=pytest.mark.nightly
        ),
        pytest.param("gs", ["torchbucket", "fsspec-gcsfs", "fsspec-gcsfs-readahead"], marks=pytest.mark.nightly),
    ],
)
def test_ranks_get_back_what_they_saved(credentials: None, scheme: str, names: list[str], tmp_path: Path) -> None:
    configs = json.dumps([yaml.safe_load((CONFIGURATIONS / f"{name}.yaml").read_text()) for name in names])
    with launch_testbed(buckets=[BUCKET], opaque_etags=True) as testbed:
        target = json.dumps(asdict(target_of(testbed, scheme, tmp_path)))
        running = [
            start(PROGRAM, rank, 2, tmp_path / "rendezvous", target, configs, imports=IMPORTS) for rank in range(2)
        ]
        saved_bytes = 0
        for one in running:
            ended = one.wait()
            assert ended.returncode == 0, ended.stderr
            found = json.loads(ended.stdout.splitlines()[-1])
            assert list(found) == names
            for name, facts in found.items():
                assert facts["wrong"] == 0, name
                assert facts["missing"] is not None, name
                assert facts["found"] == [False, True, False], name
                assert len(facts["tensors"]) == 3
                saved_bytes += facts["bytes"]
        assert saved_bytes == len(names) << 20
        assert testbed.open_uploads() == []
        assert testbed.object_counts()[BUCKET] == 0
