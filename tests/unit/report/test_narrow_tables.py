"""A table fits the terminal: no digit is cut, and every part of it names the clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_results import job, write_run

from bucketbench.report import Run, load_run, render_table
from bucketbench.report.cells import columns, texts
from bucketbench.report.sections import arrange
from bucketbench.scenarios import find_scenario, scenario_names

CONF = Path(__file__).resolve().parents[3] / "conf"
CLIENTS = ("torchbucket-map", "google-cloud-storage-transfer-manager", "raw")


def check_whole(run: Run, scenario: str, *, width: int, names: tuple[str, ...]) -> int:
    """The table at a width has every cell whole and every name in each of its parts; returns how many those are."""
    lines = render_table(run, width=width).splitlines()
    assert max(map(len, lines)) <= width
    (section,) = arrange(run)
    form = find_scenario(scenario).table
    headings = columns(section, [section], form)
    for entry in section.entries:
        for text in texts(entry, headings, form)[1:]:
            assert any(f" {text}" in line for line in lines), text
    parts = sum("───" in line for line in lines)
    for name in names:
        assert sum(line.strip().startswith(name) for line in lines) >= parts, name
    return parts


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_every_cell_is_whole_at_any_width(tmp_path: Path, width: int) -> None:
    jobs = [job(client, repeat, 12345.678 + repeat) for client in CLIENTS for repeat in range(6)]
    run = load_run(write_run(tmp_path / "run", jobs))
    parts = check_whole(run, "dataset", width=width, names=("torchbucket-map", "raw (bare loop)"))
    assert parts == 1 or width < 120


@pytest.mark.parametrize("scenario", scenario_names())
def test_the_table_of_every_scenario_fits_a_narrow_terminal(tmp_path: Path, scenario: str) -> None:
    """With the names that its clients have, and figures of which none is missing and all are long."""
    folder = CONF / (find_scenario(scenario).clients or scenario) / "client"
    names = sorted((path.stem for path in folder.glob("*.yaml")), key=len)
    clients = (names[0], *names[-2:])
    kinds = find_scenario(scenario).figures.kinds
    jobs: list[dict[str, Any]] = []
    for client in clients:
        for repeat in range(6):
            value = 98765.4321 + repeat * 1111
            figures = {name: {"unit": kind.unit, "value": value, "reason": None} for name, kind in kinds.items()}
            jobs.append(job(client, repeat, 1.0, scenario=scenario, figures=figures))
    run = load_run(write_run(tmp_path / "run", jobs, whole=False))
    for width in (60, 80):
        check_whole(run, scenario, width=width, names=tuple(name[:12] for name in clients))


def test_a_name_is_folded_where_it_has_a_hyphen(tmp_path: Path) -> None:
    jobs = [job("s3torchconnector-iterable", repeat, 12345.678 + repeat) for repeat in range(6)]
    run = load_run(write_run(tmp_path / "run", jobs))
    for width in range(40, 121):
        lines = [line.strip() for line in render_table(run, width=width).splitlines() if "─" not in line]
        names = [line.split()[0] for line in lines if line.startswith(("s3torch", "iterable"))]
        assert set(names) in ({"s3torchconnector-iterable"}, {"s3torchconnector-", "iterable"}), width
