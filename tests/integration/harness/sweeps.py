"""Runs real sweeps in processes of their own, as a user does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
from finished_sweeps import NO_PAGE, Finished

SAMPLES = 24
SMALL = [
    f"data.num_samples={SAMPLES}",
    "data.sample_size=4KiB",
    "dataloader.batch_size=4",
    "warmup_samples=4",
    "network=none",
    "epochs=1",
]
MARKER = "BUCKETBENCH_TEST_MARKER"


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """A directory in which sweeps are started, with a folder of user clients."""

    directory: Path

    @property
    def user(self) -> Path:
        return self.directory / "user"

    @property
    def marker(self) -> str:
        return f"marker-of-{self.directory}"

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, MARKER: self.marker, **more}

    def command(self, *overrides: str) -> list[str]:
        run = [sys.executable, "-m", "bucketbench.cli", "run", "dataset", "--config-dir", str(self.user)]
        return [*run, *SMALL, NO_PAGE, *overrides]

    def run(self, *overrides: str, environment: dict[str, str] | None = None) -> Finished:
        done = subprocess.run(
            self.command(*overrides),
            cwd=self.directory,
            env=self.environment() if environment is None else environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        runs = self.runs()
        return Finished(status=done.returncode, out=done.stdout, err=done.stderr, directory=runs[-1] if runs else None)

    def start(self, *overrides: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*overrides),
            cwd=self.directory,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def runs(self) -> list[Path]:
        """The sweeps' directories, the oldest first."""
        found = (self.directory / "multirun" / "dataset").glob("*")
        return sorted(found, key=lambda path: path.stat().st_ctime_ns)

    def left_over(self) -> list[list[str]]:
        """Command lines of the processes that were started, by whatever way, for sweeps in this workplace."""
        return left_over(self.marker)


def left_over(marker: str) -> list[list[str]]:
    """Command lines of the processes that have a marker in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == marker and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.cmdline())
        except psutil.Error:
            continue
    return found


def fetched(job: Path) -> dict[tuple[str, int], tuple[float, set[int]]]:
    """How many samples each phase and epoch of a job fetched, and by which workers; of the warm-up, each pass."""
    found: dict[tuple[str, int], tuple[float, set[int]]] = {}
    operations = [json.loads(line) for line in (job / "operations.jsonl").read_text().splitlines()]
    for operation in operations:
        if operation["kind"] in ("fetch", "next"):
            part = (operation["phase"], operation["epoch"])
            samples, workers = found.get(part, (0, set()))
            found[part] = (samples + operation["samples"], workers | {operation["worker"]})
    passes = sum((one["kind"], one["phase"]) == ("epoch", "warmup") for one in operations)
    for part, (samples, workers) in found.items():
        if part[0] == "warmup":
            found[part] = (samples / passes, workers)
    return found


def new_workplace(directory: Path) -> Workplace:
    """Fill an empty directory with a configuration for each class of ``sample_clients``."""
    place = Workplace(directory=directory)
    (place.user / "client").mkdir(parents=True)
    source = Path(__file__).with_name("sample_clients.py")
    shutil.copy(source, place.user / "sample_clients.py")
    classes = [
        line.split()[1].split("(")[0].rstrip(":")
        for line in source.read_text().splitlines()
        if line.startswith("class ")
    ]
    for name in classes:
        if not name.startswith("_"):
            text = f"name: {name}\n_target_: sample_clients.{name}\n"
            (place.user / "client" / f"{name}.yaml").write_text(text)
    return place
