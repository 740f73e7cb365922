"""What a job is told of a client that cannot be built."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bucketbench.checkpointing.client import measure_client
from bucketbench.checkpointing.job import CheckpointingJob
from bucketbench.checkpointing.state import StateSpec
from bucketbench.clients.protocol import Target
from bucketbench.errors import ConfigurationError
from bucketbench.job.description import Component
from bucketbench.ranks import Ranks
from bucketbench.scenarios.recording import Recorder


class TakesNothing:
    """A client without options."""


class Refuses:
    """A client that refuses a value of its options."""

    def __init__(self, *, multipart: bool = True) -> None:
        raise ConfigurationError("client.options.threads must be above 0")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            f"{__name__}.TakesNothing",
            "disable_multipart=true asks for a client with the option multipart: .*takes no arguments",
        ),
        (f"{__name__}.Refuses", "^client.options.threads must be above 0$"),
        ("no_such_package.Client", "^a: no_such_package.Client could not be built .*no_such_package"),
    ],
)
def test_parts_are_blamed_only_where_they_are_in_the_way(tmp_path: Path, target: str, words: str) -> None:
    job = CheckpointingJob(
        client=Component(name="a", target=target), target=Target(scheme="s3", bucket="b", prefix="p/"),
        min_measured_s=1.0, admin_url=None, steps=1, save_only_latest=False, clear_kernel_cache=False, multipart=False,
        warmup=False, local_directory=str(tmp_path / "local"),
        state=StateSpec(model="tensors", layers=None, tensors=1, size_bytes=4, seed=0),
    )  # fmt: skip

    def opened(client: Any, target: Target) -> Any:
        raise AssertionError("it was built")

    with Recorder(tmp_path) as recorder, pytest.raises(ConfigurationError, match=words):
        measure_client(asdict(job), recorder, Ranks(), open_checkpoints=opened, details={})
