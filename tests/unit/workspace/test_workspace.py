"""The folder that ``bucketbench init`` makes: what is in it, and that nothing of the user's is ever changed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest

from bucketbench.cli import main

ROOT = Path(__file__).resolve().parents[3]
CONF = ROOT / "conf"


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "a b+ü"
    assert main(["init", str(made)]) == 0
    return made


def test_it_has_the_whole_configuration_and_every_run_script(folder: Path) -> None:
    assert content(folder / "conf") == content(CONF)
    scripts = {path.name for path in (ROOT / "utils").glob("run_*_benchmarks.sh")}
    assert len(scripts) >= 5
    for name in scripts:
        script = folder / "utils" / name
        assert script.read_bytes() == (ROOT / "utils" / name).read_bytes()
        assert os.access(script, os.X_OK)


def test_it_can_make_the_environment_of_a_client_that_clashes(folder: Path) -> None:
    """What ``setup_peer_env.sh`` needs, with the bucketbench of this installation."""
    needed = {"setup_peer_env.sh", "peer_environment.py", "environment.py", "python.sh"}
    assert needed <= {path.name for path in (folder / "utils").iterdir()}
    pinned = (folder / "constraints-dataflux.txt").read_text()
    assert pinned.endswith(f"\ntorchbucket=={metadata.version('torchbucket')}\n")
    told = "import peer_environment; print(peer_environment.BUCKETBENCH.arguments, peer_environment.ROOT)"
    done = subprocess.run(
        [sys.executable, "-c", told], cwd=folder / "utils", capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"('--no-deps', 'torchbucket') {folder}"


def test_its_scripts_run_the_bucketbench_that_made_it_in_the_folder(folder: Path) -> None:
    assert shlex.quote(sysconfig.get_path("scripts")) in (folder / "utils" / "environment.sh").read_text()
    (folder / "bin").mkdir()
    program = folder / "bin" / "bucketbench"
    program.write_text('#!/bin/sh\npwd; for word; do echo "[$word]"; done\n')
    program.chmod(0o755)
    environment = folder / "utils" / "environment.sh"
    environment.write_text(environment.read_text().replace(sysconfig.get_path("scripts"), str(program.parent)))
    environment.write_text(environment.read_text().replace(str(program.parent), shlex.quote(str(program.parent)), 1))
    done = subprocess.run(
        [folder / "utils" / "run_dcp_benchmarks.sh", "dcp_fsdp", "ranks=2,4", "+disambiguator='a b'"],
        cwd="/", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [str(folder), "[run]", "[dcp_fsdp]", "[ranks=2,4]", "[+disambiguator='a b']"]


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("mine")
    assert main(["init", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert "--add-missing" in told.err
    assert content(tmp_path) == {"mine": b"mine"}
    assert main(["init", str(tmp_path / "mine")]) == 2
    assert "no directory" in capsys.readouterr().err


def test_what_is_there_is_never_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = {"conf/dataset.yaml": b"mine", "utils/run_dataset_benchmarks.sh": b"mine too", "conf/client/a.yaml": b"a"}
    for name, text in mine.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(text)
        (tmp_path / name).chmod(0o600)
    assert main(["init", "--add-missing", str(tmp_path)]) == 0
    assert "2 that were there are as they were" in capsys.readouterr().out
    now = content(tmp_path)
    assert {name: now[name] for name in mine} == mine
    assert (tmp_path / "utils" / "run_dataset_benchmarks.sh").stat().st_mode & 0o777 == 0o600
    assert set(content(CONF)) <= {name.removeprefix("conf/") for name in now}
    assert main(["init", "--add-missing", str(tmp_path)]) == 0
    assert content(tmp_path) == now


def test_what_a_folder_lacks_is_found_in_the_package_behind_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group or a client, such as one of a later version; what it has is taken from it."""
    (folder / "conf" / "network" / "lan.yaml").unlink()
    (folder / "conf" / "dataset" / "client" / "boto3.yaml").unlink()
    regional = folder / "conf" / "network" / "regional.yaml"
    regional.write_text(regional.read_text() + "# mine\n")
    edited = folder / "conf" / "model" / "simulated.yaml"
    edited.write_text(edited.read_text().replace("name: simulated", "name: mine"))
    monkeypatch.chdir(folder)
    arguments = ["client=boto3", "network=lan", "model=simulated", "--cfg", "job"]
    program = f"from bucketbench.cli import main; raise SystemExit(main({['run', 'dataset', *arguments]!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "name: mine" in done.stdout
    assert "bucketbench.clients.boto3" in done.stdout
