"""``bucketbench scale``: what it takes, what it refuses, and that its figures follow the configuration."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bucketbench.cli import main
from bucketbench.configuration.directory import PACKAGED
from bucketbench.scale.tables import rounded

FEW = ("checkpoint=tensors", "checkpoint.tensors=8", "checkpoint.size=1GiB")


def figures(capsys: pytest.CaptureFixture[str], scenario: str, *arguments: str) -> list[dict[str, Any]]:
    assert main(["scale", scenario, "--json", *arguments]) == 0, capsys.readouterr().err
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def of(found: list[dict[str, Any]], operation: str, ranks: int) -> dict[str, Any]:
    (one,) = [one for one in found if one["operation"].startswith(operation) and one["ranks"] == ranks]
    return one


def test_an_epoch_is_the_arithmetic_of_its_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(
        capsys, "dataset", "workload=resnet50", "data.num_samples=1M", "ranks=4,40", "scale.shard_size=128MiB",
        "prices.requests.read.per_1000=1.0",
    )  # fmt: skip
    objects = of(found, "epoch of objects", 4)
    assert objects["requests"] == {"get_object": 1_000_000}
    assert objects["received_bytes"] == 1_000_000 * 114_660
    assert objects["cost"] == pytest.approx(1000.0)
    # Each rank wants 400 samples in 0.224 s.
    assert objects["asked_per_s"] == pytest.approx(4 * 400 / 0.224)
    assert (objects["allowed_per_s"], objects["cause"]) == (5500.0, "the service's reads")
    assert objects["least_s"] == pytest.approx(1_000_000 / 5500)
    shards = of(found, "epoch of tar shards", 40)
    # Sixteen ranges of 8 MiB a shard, of which some 1,160 samples of 115,712 bytes with their headers are one.
    assert shards["requests"]["get_object_range"] == pytest.approx(1_000_000 / 1_160 * 16, rel=0.02)
    assert shards["received_bytes"] == pytest.approx(1_000_000 * 116_000, rel=0.01)


def test_limits_prefixes_hosts_and_service_are_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(
        capsys, "dataset", "workload=resnet50", "data.num_samples=1M", "ranks=40", "target=local_gs",
        "service.reads_per_s=100", "service.per=prefix", "service.doubling_s=null", "scale.prefixes=5",
    )  # fmt: skip
    assert of(found, "epoch of objects", 40)["least_s"] == pytest.approx(1_000_000 / 500)
    slow = figures(
        capsys, "dataset", "data.num_samples=1M", "ranks=16", "scale.host_bytes_per_s=1e8", "scale.ranks_per_host=16"
    )
    one = of(slow, "epoch of objects", 16)
    assert (one["cause"], one["least_s"]) == ("the hosts' links", pytest.approx(1_000_000 * 102_400 / 1e8))


def test_a_listing_by_one_rank_spares_the_others_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, "listing", "names.count=1M", "ranks=1000")
    by_each = of(found, "listing by each rank", 1000)["requests"]["list_objects_v2"]
    once = of(found, "one listing", 1000)["requests"]
    assert 1_000_000 <= by_each <= 1000 * (1000 + 1000 // 16 + 81)
    assert once["list_objects_v2"] * 1000 == by_each
    assert once["get_object"] + once["get_object_range"] == 1000 * 3  # of 17 MB, in parts of 8 MiB


def test_a_checkpoint_is_dealt_out_to_any_number_of_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, "dcp_fsdp", *FEW, "ranks=[1,8,2000]")
    assert [one["ranks"] for one in found] == [1, 8, 2000, 1, 8, 2000]
    saves = {one["ranks"]: one for one in found if one["operation"] == "save"}
    # Of 1 GiB: 129 parts of one file, since the archives' own bytes are beside it; 17 parts of each of 8.
    assert saves[1]["requests"]["upload_part"] == 129
    assert saves[8]["requests"]["upload_part"] == 8 * 17
    assert saves[2000]["requests"]["put_object"] == 2000 + 3
    assert saves[8]["counts"] == {"files": 8, "items": 64}
    loads = {one["ranks"]: one for one in found if one["operation"] == "load"}
    assert loads[8]["requests"]["list_objects_v2"] == 1
    assert loads[2000]["requests"]["list_objects_v2"] == 3
    metadata_bytes = saves[2000]["sizes_bytes"]["`.metadata`"]
    assert loads[2000]["received_bytes"] == pytest.approx((1 << 30) + 2000 * metadata_bytes, rel=0.02)


def test_metadata_is_read_by_all_or_once(capsys: pytest.CaptureFixture[str]) -> None:
    by_all, once = (
        of(figures(capsys, "dcp_fsdp", *FEW, "ranks=2000", f"client={client}"), "load", 2000)
        for client in ("torchbucket", "torchbucket-once")
    )
    assert once["received_bytes"] < 1.05 * (1 << 30) < by_all["received_bytes"]
    assert once["memory_bytes"] == by_all["memory_bytes"]


def test_replicas_are_read_by_all_or_once(capsys: pytest.CaptureFixture[str]) -> None:
    by_all = of(figures(capsys, "dcp_ddp", *FEW, "ranks=4"), "load", 4)
    once = of(figures(capsys, "dcp_ddp", *FEW, "ranks=4", "client=torchbucket-once"), "load", 4)
    assert by_all["received_bytes"] == pytest.approx(4 << 30, rel=0.001)
    assert once["received_bytes"] == pytest.approx(1 << 30, rel=0.001)


def test_a_copy_is_held_while_it_is_saved_in_the_background(capsys: pytest.CaptureFixture[str]) -> None:
    held = [
        of(figures(capsys, "dcp_simulated", *FEW, "ranks=4", f"client={client}"), "save", 4)["memory_bytes"]
        for client in ("torchbucket", "torchbucket-async")
    ]
    assert [one["copy of a rank"] for one in held] == [0, 256 << 20]


def test_the_settings_of_the_client_count(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, "dcp_simulated", *FEW, "ranks=1", "+client.options.part_size_bytes=67108864")
    assert of(found, "save", 1)["requests"]["upload_part"] == 17


def test_it_prints_markdown_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "scale.svg"
    assert main(["scale", "dataset", "workload=resnet50", "ranks=10,1000", "--svg", str(picture)]) == 0
    said = capsys.readouterr().out
    assert "Amazon S3 (2026-11-29) allows 5,500 reads and 3,500 writes a second on 1 prefix" in said
    assert said.count("| ranks | requests |") == 2
    root = ElementTree.parse(picture).getroot()
    drawn = "".join(root.itertext())
    assert "epoch of objects" in drawn
    assert "epoch of tar shards of 256.0 MiB" in drawn
    assert "USD for requests and transfer" in drawn
    assert len(root.findall(".//{http://www.w3.org/2000/svg}circle")) == 4 * 2 * 2
    assert not root.findall(".//{http://www.w3.org/2000/svg}script")


def test_a_price_list_of_the_users_own_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(PACKAGED, conf, ignore=shutil.ignore_patterns("scale", "service", "prices"))
    (conf / "prices").mkdir()
    mine = (PACKAGED / "prices" / "s3.yaml").read_text().replace("per_1000: 0.0004", "per_1000: 2.0")
    (conf / "prices" / "mine.yaml").write_text(mine)
    monkeypatch.chdir(tmp_path)
    found = figures(capsys, "dataset", "data.num_samples=1k", "ranks=1", "prices=mine")
    assert of(found, "epoch of objects", 1)["cost"] == pytest.approx(2.0)


MISTAKES = {
    ("nothing",): "there is no scenario 'nothing'",
    ("pytorch_checkpointing",): "is not simulated; those that are: dataset, listing, dcp_ddp",
    ("dataset", "client=boto3"): "client=boto3: only torchbucket's requests are simulated in the dataset scenario",
    ("dataset", "client=torchbucket-map-compose", "target=local_gs"): "compose=true: what the server joins",
    ("dataset", "ranks=0"): "scale.ranks=0: expected a whole number from 1 to 100000",
    ("dataset", "ranks=many"): "scale.ranks=many: expected a whole number",
    ("dataset", "data.seed=1,2"): "data.seed=1,2: a simulation is of one configuration; only ranks",
    ("dataset", "scale.hosts=3"): "scale.hosts is no key of the configuration",
    ("dataset", "data.colour=red"): "data.colour is no key of the configuration",
    ("dataset", "prices=gs"): "gcs-standard is of gs://, and target=local speaks s3://",
    ("dataset", "prices=ours"): "prices=ours: there is no prices of that name; the options are: gs, gs-nearline, s3,",
    ("dataset", "service.per=galaxy"): "service.per=galaxy: expected prefix or bucket",
    ("dataset", "service.reads_per_s=0"): "service.reads_per_s=0: expected a number above 0",
    ("dataset", "~service.per"): "service: per is missing or unknown; there have to be as_of, doubling_s",
    ("dataset", "+scale.hosts=3"): "scale: hosts is missing or unknown",
    ("dataset", "scale.route=moon"): "does not say what reading by the way 'moon' costs",
    ("dataset", "+client.options.speed=9"): "client.options: torchbucket has no speed",
    ("dataset", "+client.options.concurrency=0"): "concurrency must be a whole number from 1 to 1024",
    ("dataset", "--png", "x"): "unknown option --png",
}


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_a_mistake_is_told(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scale", *arguments]) == 2
    said = capsys.readouterr()
    assert MISTAKES[arguments] in said.err
    assert said.out == ""
    assert "Traceback" not in said.err


def test_a_picture_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scale", "dataset", "ranks=1", "--svg", str(tmp_path / "none" / "x.svg")]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0000188, "0.0000188"), (0.5, "0.5"), (12.345, "12.3"), (2048, "2,048"), (9999.9, "10,000"),
     (1_281_024, "1,280,000"), (999.9, "1,000"), (0.9999, "1")],
)  # fmt: skip
def test_figures_keep_three_digits(value: float, text: str) -> None:
    assert rounded(value) == text
