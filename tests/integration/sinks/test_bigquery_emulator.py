"""Runs of every scenario in an emulator of BigQuery with an SQL engine of its own, which nobody here wrote."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from finished_sweeps import read_results
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery as google
from pushed_runs import SCENARIOS, run_of

from bucketbench.cluster.ports import held_port
from bucketbench.sinks.bigquery import BigQuerySink
from bucketbench.sinks.document import read_run

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
PROJECT = "my-project"
# The extension comes with a package, and is put where DuckDB looks for it: in the home directory, here a temporary one.
PROGRAM = (
    "import duckdb_extensions; duckdb_extensions.import_extension('spatial')\nfrom bqemulator.cli import main; main()\n"
)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    subprocess.run([str(ROOT / "utils" / "setup_peer_env.sh"), "bqemulator"], check=True, stdout=subprocess.DEVNULL)
    command = [ROOT / ".venv-bqemulator" / "bin" / "python", "-c", PROGRAM, "start"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    log = tmp_path_factory.mktemp("emulator") / "log"
    with (
        log.open("w") as out,
        held_port("127.0.0.1") as rest,
        held_port("127.0.0.1") as grpc,
        subprocess.Popen(
            [*map(str, command), "--rest-port", str(rest), "--grpc-port", str(grpc)],
            env={**environment, "HOME": str(tmp_path_factory.mktemp("home"))},
            stdout=out,
            stderr=subprocess.STDOUT,
        ) as serving,
    ):
        try:
            while not _answers(rest):
                assert serving.poll() is None, log.read_text()
                time.sleep(0.2)
            yield f"http://127.0.0.1:{rest}"
        finally:
            serving.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_run_pushed_twice_is_there_once_and_comes_back_equal(emulator: str, tmp_path: Path, scenario: str) -> None:
    sink = BigQuerySink(dataset="runs", project=PROJECT, endpoint=emulator, create=True)
    directory = run_of(scenario, tmp_path)
    for _ in range(2):
        assert sink.push(read_run(directory)).jobs == 2
    assert sink.fetch(read_results(directory)["run_id"]) == [read_results(directory)]


def test_the_question_of_the_page_is_answered(emulator: str, tmp_path: Path) -> None:
    directory = run_of("dataset", tmp_path, "dataloader.num_workers=2")
    BigQuerySink(dataset="bucketbench", project=PROJECT, endpoint=emulator, create=True).push(read_run(directory))
    (question,) = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "sinks.md").read_text(encoding="utf-8"), re.DOTALL)
    client = google.Client(PROJECT, credentials=AnonymousCredentials(), client_options={"api_endpoint": emulator})
    (row,) = client.query_and_wait(question)
    (job,) = [job for job in read_results(directory)["jobs"] if job["status"] == "ok"]
    assert (row["client"], row["value"]) == (job["client"], job["figures"]["throughput_mibs"]["value"])
