"""What clients' requests cost, in every form of the report, by the price list that is chosen."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from report_results import job, write_run

from bucketbench.configuration.directory import PACKAGED
from bucketbench.cost.pricing import read_pricing
from bucketbench.errors import ConfigurationError, UsageError
from bucketbench.report import load_run
from bucketbench.report.command import main
from bucketbench.report.costs import priced
from bucketbench.statistics import ServerCounts

GIB = 1 << 30


def traffic(times: int, **requests: int) -> dict[str, Any]:
    return {"epoch": {"times": times, "requests": requests, "received_bytes": times * GIB, "sent_bytes": 0}}


def results() -> list[dict[str, Any]]:
    config = {"target": {"scheme": "s3"}}
    return [
        job("whole", 0, 100.0, config=config, traffic=traffic(2, get_object=2_000, head_object=400)),
        job("ranged", 0, 90.0, config=config, traffic=traffic(4, get_object_range=40_000, list_objects_v2=4)),
        job("uncounted", 0, 80.0, config=config, traffic={}, traffic_reason="a real service counts nothing for us"),
        job("old", 0, 70.0, config=config),
        job("odd", 0, 60.0, config=config, traffic=traffic(1, unheard_of=1)),
    ]


@pytest.fixture
def run(tmp_path: Path) -> str:
    return str(write_run(tmp_path / "run", results()))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_an_epoch_costs_what_its_requests_and_bytes_do(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["client"]: row for row in json.loads(printed(capsys, run, "--json"))}
    assert rows["whole"]["cost_per_epoch"] == pytest.approx(1_200 * 0.0004 / 1000)
    assert rows["ranged"]["cost_per_epoch"] == pytest.approx(10_000 * 0.0004 / 1000 + 1 * 0.005 / 1000)
    assert rows["uncounted"]["cost_per_epoch"] is None
    assert rows["uncounted"]["cost_per_epoch_reason"] == "a real service counts nothing for us"
    assert "the version that recorded the job did not count it" in rows["old"]["cost_per_epoch_reason"]
    assert "does not say what unheard_of costs" in rows["odd"]["cost_per_epoch_reason"]
    cheaper = json.loads(printed(capsys, run, "--json", "--prices", "s3-infrequent", "--route", "internet"))
    assert cheaper[0]["cost_per_epoch"] == pytest.approx(1_200 * 0.001 / 1000 + 0.10)
    assert cheaper[0]["prices"] == {
        "lists": [{"name": "s3-standard-ia", "as_of": read_pricing(["s3-infrequent"]).lists["s3"].as_of}],
        "currency": "USD", "route": "internet",
    }  # fmt: skip


def test_the_table_has_costs_where_they_are_asked_for(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "USD" not in printed(capsys, run)
    asked = printed(capsys, run, "--prices", "s3")
    assert "epoch" in asked
    assert "USD/1000" in asked
    assert "0.48" in asked
    dated = f"prices: s3-standard of {read_pricing().lists['s3'].as_of}, in USD; what is read goes by same_region"
    assert dated in " ".join(asked.split())
    markdown = printed(capsys, run, "--markdown")
    assert "| epoch USD/1000 |" in markdown
    assert dated.replace("_", r"\_") in markdown


def test_other_files_have_costs_too(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, rows = tmp_path / "report.html", tmp_path / "jobs.csv"
    printed(capsys, run, "--html", str(page), "--csv", str(rows))
    text = page.read_text()
    assert "Cost, USD of 1,000" in text
    assert "s3-standard of" in text
    with rows.open() as file:
        found = {row["client"]: row for row in csv.DictReader(file)}
    assert float(found["whole"]["cost_per_epoch"]) == pytest.approx(0.00048)
    assert found["old"]["cost_per_epoch"] == ""
    assert found["old"]["cost_per_epoch_reason"]


def test_a_run_without_counts_says_so_and_has_no_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [job("old", 0, 70.0)])
    text = printed(capsys, str(run), "--markdown")
    assert "USD/1000" not in text
    assert "Costs are n/a: the version that recorded the job did not count it." in text


def test_a_wrong_price_list_is_refused(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([run, "--prices", "moon"]) == 2
    assert "there is no price list 'moon': give a YAML file, or one of gs, gs-nearline, s3, s3-infrequent" in (
        capsys.readouterr().err
    )
    with pytest.raises(UsageError, match="are both price lists of s3://"):
        read_pricing(["s3", "s3-infrequent"])
    with pytest.raises(ConfigurationError, match="by the way 'tunnel'"):
        read_pricing(route="tunnel")
    mine = tmp_path / "mine.yaml"
    mine.write_text((PACKAGED / "prices" / "gs.yaml").read_text().replace("USD", "EUR"))
    with pytest.raises(UsageError, match="in EUR and USD"):
        read_pricing(["s3", str(mine)])
    alone = priced(load_run(Path(run)), read_pricing([str(mine)]))
    assert alone.results[0].figures["cost_per_epoch"].reason == "none of the price lists is of s3://"


def test_counts_of_two_moments_are_taken_apart_and_together() -> None:
    before = ServerCounts(requests=3, bytes_out=5, faults=0, warnings=0, listings=1, requests_s=1.0, bytes_in=2,
                          requests_by_name={"get_object": 2, "list_objects_v2": 1})  # fmt: skip
    after = ServerCounts(requests=9, bytes_out=8, faults=1, warnings=0, listings=1, requests_s=2.5, bytes_in=2,
                         requests_by_name={"get_object": 7, "head_object": 1, "list_objects_v2": 1})  # fmt: skip
    grown = after.since(before)
    assert grown == ServerCounts(requests=6, bytes_out=3, faults=1, warnings=0, listings=0, requests_s=1.5, bytes_in=0,
                                 requests_by_name={"get_object": 5, "head_object": 1})  # fmt: skip
    assert before.plus(grown) == after
