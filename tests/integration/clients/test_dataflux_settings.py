"""Every configuration of gcs-torch-dataflux, in its own interpreter: every sample, whole, in and out of workers."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
from served_clients import CLIENTS, Served, client_config

from bucketbench.job.interpreters import made_interpreter

PROGRAM = Path(__file__).with_name("dataflux_settings.py")


@pytest.mark.nightly  # its environment may have to be made first
def test_every_configuration_delivers_every_sample(served: Served) -> None:
    configs = [config for config in map(client_config, CLIENTS) if config.get("environment") == "dataflux"]
    assert len(configs) == 6
    python = made_interpreter("dataflux", client="dataflux", say=print)
    arguments = [json.dumps(asdict(served.target_of("gs"))), json.dumps(configs)]
    done = subprocess.run([str(python), str(PROGRAM), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = sorted([key, hashlib.sha256(data).hexdigest()] for key, data in served.contents.items())
    found = json.loads(done.stdout)
    assert found == {config["name"]: [expected, expected] for config in configs}
