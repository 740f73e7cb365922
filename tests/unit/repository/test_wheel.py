"""The wheel: what is in it, and that it is enough to benchmark with where there is no repository.

On each commit it is built and looked into; at night it is installed, and a folder that its ``bucketbench init`` makes
runs a sweep of each scenario.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from bucketbench.workspace.sources import files_beside_conf

ROOT = Path(__file__).resolve().parents[3]

SCENARIOS = {
    "run_dataset_benchmarks.sh": ["client=torchbucket-map,boto3", "data.num_samples=32", "data.sample_size=10KiB"],
    "run_listing_benchmarks.sh": ["client=torchbucket,boto3", "names.count=500"],
    "run_checkpoint_benchmarks.sh": ["client=torchbucket,boto3", "checkpoint=small"],
    "run_lightning_benchmarks.sh": ["client=torchbucket,disk", "checkpoint=small"],
    "run_dcp_benchmarks.sh": ["client=torchbucket,disk", "checkpoint=small"],
}
WHERE = "import bucketbench, torchbucket, buckettestbed; print(*(m.__file__ for m in (bucketbench, torchbucket, buckettestbed)))"  # noqa: E501 - one program


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def _relative(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_it_has_the_configuration_the_scripts_and_all_that_is_no_module(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        script = archive.read("bucketbench/workspace/files/utils/run_dataset_benchmarks.sh")
    assert {f"bucketbench/conf/{name}" for name in _relative(ROOT / "conf")} <= names
    presets = {f"{group}/{path.name}" for group in ("network", "faults") for path in (ROOT / "conf" / group).iterdir()}
    assert {f"buckettestbed/conf/{name}" for name in presets} <= names
    # Of what is below src no file is left out: schemas, templates, py.typed.
    tracked = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    own = {line.removeprefix("src/") for line in tracked.splitlines() if not (ROOT / line).is_dir()}
    assert {"torchbucket/py.typed", "bucketbench/results/schema/job_results.schema.json"} <= own <= names
    assert {f"bucketbench/workspace/files/{name}" for name in files_beside_conf()} <= names
    assert script == (ROOT / "utils" / "run_dataset_benchmarks.sh").read_bytes()
    top = {name.partition("/")[0] for name in names}
    packages = {"torchbucket", "bucketbench", "buckettestbed", "hydra_plugins"}
    assert {name for name in top if not name.endswith(".dist-info")} == packages


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the wheel, and beside it what this one has; it knows no repository."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    # What a .pth names is searched last, and no .pth is read there: not that of an editable installation either.
    (Path(paths["purelib"]) / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    options = ["-q", "--no-deps", "--no-index", "--ignore-installed"]
    command = [sys.executable, "-m", "pip", "--python", str(folder), "install", *options, str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_every_scenario_runs_in_the_folder_of_an_installed_wheel(installed: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def done(*command: str | Path, cwd: Path) -> str:
        run = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        assert run.returncode == 0, (command, run.stdout[-2000:], run.stderr[-4000:])
        return run.stdout

    programs = installed / "bin"
    places = done(programs / "python", "-c", WHERE, cwd=tmp_path).split()
    assert all(Path(place).is_relative_to(installed) for place in places), places
    folder = tmp_path / "a folder"
    assert "next: cd" in done(programs / "bucketbench", "init", folder, cwd=tmp_path)
    for script, arguments in SCENARIOS.items():
        done(folder / "utils" / script, "repeat=range(1)", *arguments, cwd=tmp_path)
    pages = sorted((folder / "multirun").glob("*/*/report.html"))
    assert len(pages) == len(SCENARIOS)
    assert all("</html>" in page.read_text(encoding="utf-8") for page in pages)
    images = (folder / "images").as_uri() + "/"
    done(programs / "torchbucket-datagen", "-n", "3", "--uri", images, cwd=folder)
    assert "3" in done(programs / "torchbucket", "summary", images, cwd=folder)
    assert "torchbucket" in done(programs / "bucketbench", "report", cwd=folder)
