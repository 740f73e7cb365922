"""``bucketbench push`` and the choice of a sink, with sinks of a user's own that reach no network."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sample_runs import job, run_results, write_run

from bucketbench.cli import main
from bucketbench.errors import ConfigurationError
from bucketbench.sinks.chosen import check_sinks, chosen_sink
from bucketbench.sinks.delivery import push_sweep, tell_unpushed

SECRET = "canary-4f1d8c2b7a"

SINK = """
import json
from pathlib import Path
from bucketbench.sinks.protocol import Pushed

class FileSink:
    def __init__(self, *, folder, raises=None):
        self._folder, self._raises = Path(folder), raises

    def push(self, run):
        if self._raises is not None:
            raise RuntimeError(self._raises)
        self._folder.mkdir(exist_ok=True)
        name = run.run_id.replace("/", "+")
        (self._folder / name).write_text(json.dumps([job.number for job in run.jobs]))
        return Pushed(where="a folder", jobs=len(run.jobs), command=f"cat {name}")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a run of two jobs, and one with a sink's module and its file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own" / "sink").mkdir(parents=True)
    (tmp_path / "own" / "file_sink.py").write_text(SINK)
    (tmp_path / "own" / "sink" / "mine.yaml").write_text(
        "name: mine\n_target_: file_sink.FileSink\nfolder: ???\nraises: null\n"
    )
    write_run(tmp_path / "run", run_results(job(0), job(1)))
    yield tmp_path
    sys.modules.pop("file_sink", None)


def push(*arguments: str) -> int:
    return main(["push", *arguments, "--config-dir", "own"])


def test_a_run_is_pushed_to_the_sink_that_the_command_names(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert push("run", "sink=mine", "sink.folder=pushed") == 0
    told = capsys.readouterr()
    assert told.out == (
        "dataset/2026-11-29_09-05-18: 2 jobs, in a folder\nget it back: cat dataset+2026-11-29_09-05-18\n"
    )
    assert told.err == ""
    assert json.loads((place / "pushed" / "dataset+2026-11-29_09-05-18").read_text()) == [0, 1]


def test_a_run_is_pushed_to_the_sink_that_it_was_configured_with(place: Path) -> None:
    configured = (
        "sink:\n  name: mine\n  _target_: file_sink.FileSink\n  folder: ${place}/there\n  raises: null\nplace: .\n"
    )
    (place / "run" / "multirun.yaml").write_text(configured)
    assert push("run") == 0
    assert [path.name for path in (place / "there").iterdir()] == ["dataset+2026-11-29_09-05-18"]
    assert push("run/run_results.json", "sink.folder=elsewhere") == 0
    assert (place / "elsewhere").is_dir()


def test_a_run_that_cannot_be_pushed_stops_no_other(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "broken").mkdir()
    write_run(place / "grows", run_results(job(0), run_id="dataset/other", jobs_planned=3))
    assert push("broken", "grows", "sink=mine", "sink.folder=pushed") == 1
    told = capsys.readouterr()
    assert told.out.startswith("dataset/other: 1 jobs of 3; the others have not ended, in a folder\n")
    assert told.err.startswith("bucketbench push: broken: there is no run at broken")
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "the run has no sink in its configuration: say where to push it"),
        (["run", "sink=none"], "the run has no sink"),
        (["run", "sink=other"], "there is no sink of that name; the options are: bigquery, dynamodb, mine, none"),
        (["run", "sink=mine"], "sink.folder must be set and is not"),
        (["run", "sink=mine", "sink.foldr=x"], "sink.foldr is no key of the sink mine"),
        (["run", "sink=mine", "sink.folder"], "sink.folder is no override"),
        (["run", "sink=mine", "sink.folder=x", "+sink.more=1"], "could not be built with the options"),
        (["run", "sink=mine", "sink.folder=x", "+sink.token=abcdefgh"], "sink.token would put a credential"),
        (["run", "sink=mine", "sink.folder=x", "sink._target_=nowhere.Sink"], "there is no module nowhere"),
        (
            ["run", "sink=mine", "sink.folder=x", "+sink.requires=[no_such_package]"],
            "needs the package no_such_package",
        ),
        (["run", "sink=dynamodb", "sink.table=a b"], "sink.table=a b cannot be used"),
        (["run", "sink=bigquery", "sink.dataset=a-b"], "sink.dataset=a-b cannot be used"),
        (
            ["run", "sink=bigquery", "sink.dataset=a", "sink.endpoint=http://127.0.0.1:1"],
            "sink.endpoint needs sink.project",
        ),
    ],
)
def test_a_mistake_in_the_command_is_one_line(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert push(*arguments) == 2
    told = capsys.readouterr()
    assert words in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert main(["push"]) == 2


def chosen(**changes: Any) -> dict[str, Any]:
    return {
        "name": "mine",
        "_target_": "file_sink.FileSink",
        "folder": "pushed",
        "raises": None,
        "path": "own",
        **changes,
    }


def test_whatever_a_sink_raises_is_told_without_secrets_and_costs_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)
    before = {path: path.read_bytes() for path in (place / "run").rglob("*") if path.is_file()}
    assert push_sweep(chosen(raises=f"no\nuse: {SECRET}"), place / "run") == 3
    told = capsys.readouterr().err
    assert "NOT PUSHED to the sink: the sink mine failed: RuntimeError: no use: [secret]\n" in told
    assert f"send them by: bucketbench push {place / 'run'}\n" in told
    assert {path: path.read_bytes() for path in (place / "run").rglob("*") if path.is_file()} == before
    assert push_sweep(chosen(), place / "run") == 0
    assert "2 jobs, in a folder" in capsys.readouterr().err
    assert push_sweep({"name": "none"}, place / "run") == push_sweep({}, place / "run") == 0
    assert capsys.readouterr().err == ""


def test_an_interrupted_sweep_tells_that_it_is_not_pushed(capsys: pytest.CaptureFixture[str]) -> None:
    tell_unpushed({"name": "none"}, Path("run"))
    assert capsys.readouterr().err == ""
    tell_unpushed(chosen(), Path("my run"))
    assert "bucketbench push 'my run'" in capsys.readouterr().err


def test_a_sweep_over_sinks_is_refused_and_one_is_built_before_it_begins(place: Path) -> None:
    check_sinks([{"name": "none"}, {"name": "none"}], config_directories=())
    check_sinks([chosen(), chosen()], config_directories=())
    assert not (place / "pushed").exists()
    with pytest.raises(ConfigurationError, match="sink cannot be swept"):
        check_sinks([chosen(), {"name": "none"}], config_directories=())
    with pytest.raises(ConfigurationError, match="could not be built"):
        check_sinks([chosen(wrong=1)], config_directories=())
    assert chosen_sink({}) is None
