"""Every pair of examples on the page about migrating gives equal samples on the same bucket."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked_programs
import pytest
from migration_page import PAGE, Pair, pairs

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import StoreConfig
from torchbucket.store import open_store

ROOT = PAGE.parents[1]
PROGRAM = Path(__file__).with_name("migration_program.py")
BODIES = {f"train/{number:03}.bin": bytes([number]) * (1000 + number) for number in range(40)}


@pytest.fixture(scope="module")
def bucket() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["my-bucket"]) as testbed:
        config = StoreConfig(endpoint=testbed.s3_endpoint, region="eu-west-1", anonymous=True)
        store = open_store("s3://my-bucket", config)
        for key, body in BODIES.items():
            store.write(key, body)
        store.close()
        yield testbed


@pytest.fixture(scope="module")
def dataflux_python() -> Path:
    """The interpreter of gcs-torch-dataflux's own environment."""
    subprocess.run([str(ROOT / "utils" / "setup_peer_env.sh"), "dataflux"], check=True, stdout=subprocess.DEVNULL)
    return ROOT / ".venv-dataflux" / "bin" / "python"


def run(example: str, bucket: RunningTestbed, directory: Path, *, interpreter: Path | None = None) -> dict[str, Any]:
    """Run an example as a user would, but for the place of the bucket; in this interpreter or in another one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GOOGLE_"))}
    environment = kept | {
        "AWS_ACCESS_KEY_ID": "AKIAMIGRATING",
        "AWS_SECRET_ACCESS_KEY": "migrating-secret-key",
        "AWS_EC2_METADATA_DISABLED": "true",
        "STORAGE_EMULATOR_HOST": bucket.gcs_endpoint,
    }
    if interpreter is None and "lightning" in example:
        return run_here(example, environment)
    path = directory / "example.py"
    path.write_text(example, encoding="utf-8")
    done: forked_programs.Ended | subprocess.CompletedProcess[str]
    if interpreter is None:
        done = forked_programs.run(PROGRAM, path, environment=environment)
    else:
        command = [str(interpreter), str(PROGRAM), str(path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run_here(example: str, environment: dict[str, str]) -> dict[str, Any]:
    """Run an example of a trainer in this process, which has imported Lightning; it starts none itself."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ.keys() - environment.keys():
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        if "s3torchconnector" in example:
            import s3torchconnector

            made = s3torchconnector.S3ClientConfig.__init__
            patch.setattr(made, "__defaults__", made.__defaults__)  # which the example changes, see below
        module = types.ModuleType("example")
        patch.setitem(sys.modules, "example", module)
        exec(compile(example, "example", "exec"), module.__dict__)
    return {"samples": module.samples, "names": getattr(module, "names", [])}


def on_testbed(example: str, bucket: RunningTestbed) -> str:
    placed = example.replace('region="eu-west-1"', f'region="eu-west-1", endpoint="{bucket.s3_endpoint}"')
    if "s3torchconnector" in example:
        # A bucket in the path is what an address without a name needs; torchbucket sees that by itself.
        placed = (
            "import s3torchconnector\n"
            "defaults = s3torchconnector.S3ClientConfig.__init__.__defaults__\n"
            "s3torchconnector.S3ClientConfig.__init__.__defaults__ = (*defaults[:3], True, *defaults[4:])\n" + placed
        )
    return placed


@pytest.mark.parametrize("pair", pairs("s3"), ids=lambda pair: pair.name)
def test_s3torchconnector(pair: Pair, bucket: RunningTestbed, tmp_path: Path) -> None:
    ours, theirs = (run(on_testbed(example, bucket), bucket, tmp_path) for example in (pair.ours, pair.theirs))
    assert ours == theirs
    assert len(ours["samples"]) in (2, len(BODIES))


@pytest.mark.parametrize("pair", pairs("gcs"), ids=lambda pair: pair.name)
def test_our_part_of_what_is_said_of_gcs_torch_dataflux(pair: Pair, bucket: RunningTestbed, tmp_path: Path) -> None:
    ours = run(pair.ours, bucket, tmp_path)
    assert len(ours["samples"]) in (3, len(BODIES))
    bodies = {body.hex() for body in BODIES.values()}
    assert all(sample["bytes"] in bodies for sample in ours["samples"] if isinstance(sample, dict))


@pytest.mark.nightly  # The environment of gcs-torch-dataflux may have to be made first.
@pytest.mark.parametrize("pair", pairs("gcs"), ids=lambda pair: pair.name)
def test_gcs_torch_dataflux(pair: Pair, bucket: RunningTestbed, tmp_path: Path, dataflux_python: Path) -> None:
    ours = run(pair.ours, bucket, tmp_path)
    theirs = run(pair.theirs, bucket, tmp_path, interpreter=dataflux_python)
    assert ours == theirs
    assert len(ours["samples"]) in (3, len(BODIES))


def test_every_pair_runs() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(pairs("s3")) + len(pairs("gcs")) == text.count("<!-- pair: ") == 13
    # No example stands outside of a pair.
    assert len(re.findall(r"^```python$", text, re.MULTILINE)) == 26
