"""Result files: whole or not at all, readable after a crash, free of secrets."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from composition import points_of_scenario

from bucketbench import worker
from bucketbench.clients.protocol import Target
from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import ResultsError
from bucketbench.job.description import Component, Description
from bucketbench.job.environment import measured_environment
from bucketbench.ranks import Ranks
from bucketbench.reasons import as_keys, reason_of
from bucketbench.results import RUN_RESULTS_FILE, read_job_results, write_json
from bucketbench.results.job import JobResult, job_result
from bucketbench.results.raw import read_raw
from bucketbench.results.record import RunRecord
from bucketbench.scenarios.dataset.job import DatasetJob, LoaderSettings, LocalCopy
from bucketbench.secrecy import (
    home_directories,
    redacted,
    scrub_files,
    secret_keys,
    secret_values,
    without_home,
    without_secrets,
)


@pytest.fixture(scope="module")
def settings() -> JobSettings:
    (point,) = points_of_scenario("dataset", "client=boto3", "repeat=2", "+disambiguator=x")
    return point


def operation(**changes: object) -> str:
    fields = {
        "kind": "fetch", "phase": "measure", "epoch": 0, "worker": 0, "started_s": 1.0, "ended_s": 2.0, "samples": 1,
        "content_bytes": 1 << 20, "errors": 0, "error": None, "rank": 0,
    }  # fmt: skip
    return json.dumps({**fields, **changes})


def results_of(directory: Path, settings: JobSettings, *, secrets: tuple[str, ...] = ()) -> JobResult:
    return job_result(
        directory, settings=settings, number=3, reason="killed with token-12345678", host={}, commit=None,
        started_at="2026-01-01T00:00:00+00:00", objects_left=0, secrets=secrets,
    )  # fmt: skip


def test_a_job_without_an_outcome_failed(tmp_path: Path, settings: JobSettings) -> None:
    results = results_of(tmp_path, settings, secrets=("token-12345678",))
    assert (results.status, results.reason) == ("failed", "killed with [secret]")
    assert (results.client, results.repeat, results.disambiguator, results.number) == ("boto3", 2, "x", 3)
    assert pickle.loads(pickle.dumps(results)) == results, "a launcher brings it back from another process"


def test_records_that_end_in_the_middle_of_a_line_are_read(tmp_path: Path, settings: JobSettings) -> None:
    whole = [operation(kind="epoch", samples=0, content_bytes=0), operation()]
    (tmp_path / "operations.jsonl").write_text("\n".join([*whole, operation()[:40]]))
    assert results_of(tmp_path, settings).figures["throughput_mibs"].value == pytest.approx(1.0)


def test_damaged_records_fail_the_job_and_nothing_else(tmp_path: Path, settings: JobSettings) -> None:
    (tmp_path / "operations.jsonl").write_text(f"{operation()[:40]}\n{operation()}\n")
    results = results_of(tmp_path, settings)
    assert results.status == "failed"
    assert "raw records are damaged" in str(results.reason)


def test_records_that_were_cut_between_two_lines_are_told(tmp_path: Path) -> None:
    (tmp_path / "operations.jsonl").write_text(f"{operation()}\n")
    (tmp_path / "usage.jsonl").write_text("")
    (tmp_path / "outcome.json").write_text(json.dumps({"records": {"operations.jsonl": 2}}))
    with pytest.raises(ResultsError, match=r"operations\.jsonl is damaged: it has 1 records, and was written with 2"):
        read_raw(tmp_path, ended=True)


def test_jobs_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        folder = tmp_path / f"client=x,repeat={number}" / "deeper"  # hydra.sweep.subdir is the user's to choose
        folder.mkdir(parents=True)
        write_json(folder / "job_results.json", {"number": number})
    (tmp_path / "samples").mkdir()
    assert [job["number"] for job in read_job_results(tmp_path)] == [1, 9, 10]


def test_a_damaged_job_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "job_results.json").write_text("{")
    with pytest.raises(ResultsError, match=r"0/job_results\.json cannot be read"):
        read_job_results(tmp_path)


def test_a_result_that_is_no_json_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_json(path, {"value": 1})
    with pytest.raises(ResultsError, match=r"results\.json could not be written"):
        write_json(path, {"value": float("nan")})
    assert json.loads(path.read_text()) == {"value": 1}


def test_a_run_is_written_again_after_each_job(tmp_path: Path) -> None:
    RunRecord(directory=tmp_path, scenario="dataset", command=("epochs=1",), jobs_planned=2).write()
    run = RunRecord.read(tmp_path)
    assert run is not None
    assert run.write_results(ended=False)["ended_at"] is None
    (tmp_path / "0").mkdir()
    write_json(tmp_path / "0" / "job_results.json", {"client": "boto3"})
    replace(run, interrupted=True).write_results(ended=True)
    written = json.loads((tmp_path / RUN_RESULTS_FILE).read_text())
    assert written["jobs"] == [{"client": "boto3"}]
    assert written["interrupted"] is True
    assert (written["started_at"], written["command"]) == (run.started_at, ["epochs=1"])
    assert written["ended_at"]


def test_a_damaged_record_of_a_run_is_named(tmp_path: Path) -> None:
    assert RunRecord.read(tmp_path) is None
    (tmp_path / "run.json").write_text('{"scenario": "dataset"}')
    with pytest.raises(ResultsError, match=r"run\.json cannot be read"):
        RunRecord.read(tmp_path)


def rank(directory: Path, number: int, *, status: str = "ok", reason: str | None = None, wall_s: float = 1.0) -> None:
    folder = directory / "ranks" / str(number)
    folder.mkdir(parents=True)
    records = [operation(kind="epoch", samples=0, content_bytes=0, rank=number, ended_s=1.0 + wall_s),
               operation(rank=number)]  # fmt: skip
    (folder / "operations.jsonl").write_text("".join(f"{record}\n" for record in records))
    usage = [
        {"at_s": at_s, "cpu_s": cpu_s, "rss_bytes": 64 << 20, "processes": 1} for at_s, cpu_s in ((0.9, 1), (9, 3))
    ]
    (folder / "usage.jsonl").write_text("".join(f"{json.dumps(sample)}\n" for sample in usage))
    outcome = {
        "status": status, "reason": reason, "verification": None, "server": None, "details": {}, "versions": {},
        "ranks": 2,
    }  # fmt: skip
    (folder / "outcome.json").write_text(json.dumps(outcome))


def test_the_slowest_of_the_ranks_decides_and_all_of_them_count(tmp_path: Path, settings: JobSettings) -> None:
    rank(tmp_path, 0, wall_s=1.0)
    rank(tmp_path, 1, wall_s=4.0)
    result = results_of(tmp_path, settings)
    assert result.ok, result.reason
    assert result.figures["wall_s"].value == 4.0
    assert result.figures["throughput_mibs"].value == 2 / 4
    assert (result.figures["cpu_s"].value, result.figures["peak_rss_mib"].value) == (4.0, 128.0)


def test_a_job_fails_with_any_of_its_ranks_which_is_named(tmp_path: Path, settings: JobSettings) -> None:
    rank(tmp_path, 0)
    rank(tmp_path, 1, status="failed", reason="OSError: lost")
    result = results_of(tmp_path, settings)
    assert (result.status, result.reason) == ("failed", "rank 1: OSError: lost")
    (tmp_path / "ranks" / "1" / "outcome.json").unlink()
    assert results_of(tmp_path, settings).reason == "killed with token-12345678"


LOST_PEER = "RuntimeError: [/w/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer"


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        (["CheckpointException: full", "CheckpointException: full"], "ranks 0 and 1: CheckpointException: full"),
        ([LOST_PEER, "OSError: lost"], "rank 1: OSError: lost"),
        ([LOST_PEER, LOST_PEER], f"ranks 0 and 1: {LOST_PEER}"),
    ],
)
def test_what_ranks_have_met_is_told_once(tmp_path: Path, settings: JobSettings, reasons: list[str], told: str) -> None:
    for number, reason in enumerate(reasons):
        rank(tmp_path, number, status="failed", reason=reason)
    assert results_of(tmp_path, settings).reason == told


@pytest.mark.parametrize(("number", "waits"), [(0, False), (1, True)])
def test_a_rank_that_failed_leaves_the_first_one_time_to_remove_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, waits: bool
) -> None:
    Description(measurement="a.measure", search_path=(), requires=(), job={}).write(tmp_path)
    monkeypatch.setenv("RANK", str(number))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(worker, "outcome_of", lambda *_: {"status": "failed", "reason": "OSError: lost"})
    written: list[bool] = []
    outcome = tmp_path / "ranks" / str(number) / "outcome.json"
    monkeypatch.setattr("time.sleep", lambda _: written.append(outcome.exists()))
    assert worker.main([str(tmp_path)]) == 1
    assert written == [True] * waits
    assert outcome.exists()


def has_no_data(job: dict[str, Any], recorder: Any, ranks: Any) -> None:
    """A scenario's measurement that fails."""
    raise RuntimeError("rank 1 has no data")


def test_a_rank_that_failed_has_told_why_when_the_others_notice(tmp_path: Path) -> None:
    told: list[str] = []

    class Noticed(Ranks):
        @contextmanager
        def joined(self, backend: str = "gloo") -> Iterator[None]:
            try:
                yield
            finally:  # whoever gathers from this rank fails now, and torchrun ends it for that
                told.append(json.loads((tmp_path / "outcome.json").read_text())["reason"])

    description = Description(measurement=f"{__name__}.has_no_data", search_path=(), requires=(), job={})
    outcome = worker.outcome_of(description, tmp_path, Noticed(rank=1, world_size=2, local_rank=1))
    assert told == [outcome["reason"]] == ["RuntimeError: rank 1 has no data"]


@pytest.mark.parametrize("gone", [0, 1])
def test_figures_of_some_of_the_ranks_are_none(tmp_path: Path, gone: int) -> None:
    for number in range(2):
        rank(tmp_path, number)
    assert {one.rank for one in read_raw(tmp_path, ended=True)[0]} == {0, 1}
    shutil.rmtree(tmp_path / "ranks" / str(gone))
    with pytest.raises(ResultsError, match=f"has no records of rank {gone}: .* put their folders back"):
        read_raw(tmp_path, ended=True)


def test_a_job_survives_its_file(tmp_path: Path) -> None:
    job = DatasetJob(
        client=Component(name="mine", target="a.b.C", requires=("x",), search_path=("/p",), options={"n": [1, None]}),
        model=Component(name="none", target="m.N"),
        target=Target(scheme="s3", bucket="b", prefix="p/"),
        samples_file="/s.jsonl",
        loader=LoaderSettings(
            num_workers=1, batch_size=2, prefetch_factor=2, start_method="auto", persistent_workers=True,
            pin_memory=False, shuffle=True,
        ),
        epochs=None, min_measured_s=1.0, warmup_samples=0, seed=0, device="cpu", admin_url=None,
        local_copy=LocalCopy(directory="/d", spec={"num_samples": 3}),
    )  # fmt: skip
    Description.of(job, measurement="a.measure").write(tmp_path)
    described = Description.read(tmp_path)
    assert DatasetJob.from_json(described.job) == job
    assert (described.measurement, described.requires) == ("a.measure", ("torch", "x"))


def test_secrets_are_found_by_the_names_of_variables() -> None:
    environment = {
        "AWS_SECRET_ACCESS_KEY": "s" * 40, "MY_TOKEN": "t" * 12, "DB_PASSWORD": "p" * 10, "PATH": "/usr/bin:/bin",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token", "SHORT_TOKEN": "abc",
    }  # fmt: skip
    assert secret_values(environment) == ("s" * 40, "t" * 12, "p" * 10)
    assert redacted(f"x {'t' * 12} y", secret_values(environment)) == "x [secret] y"


def test_a_secret_may_begin_with_a_slash_and_is_found_as_addresses_and_json_write_it() -> None:
    environment = {
        "AWS_SECRET_ACCESS_KEY": "/x+" + "s" * 37, "GOOGLE_APPLICATION_CREDENTIALS": "/none/account.json",
        "DB_PASSWORD": 'a"b\n' * 3,
    }  # fmt: skip
    secrets = secret_values(environment)
    assert "/none/account.json" not in secrets
    told = f"?key=%2Fx%2B{'s' * 37} and {json.dumps(environment['DB_PASSWORD'])} and /x+{'s' * 37}"
    assert redacted(told, secrets) == '?key=[secret] and "[secret]" and [secret]'


PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----"
FORMS = {
    "not reached: https://me:p@ss@host:9000/x and s3://b/a@b and http://h:90/a:b@c": "p@ss",
    "cloning https://some-token@example.com/x failed": "some-token",
    "GET https://h/k?X-Amz-Credential=AB%2F1&X-Amz-Date=2&X-Amz-Signature=0badf00d&x=1 was refused": "0badf00d",
    "https://acc.example.com/c?sv=1&sig=ab%2Bcd&se=2": "ab%2Bcd",
    "{'Authorization': 'Bearer abcdefghijklmnopqrst', 'X-Amz-Security-Token': b'FwoGZXIvYXdz//=='}": "FwoGZXIvYXdz//==",
    "Credential=AKIAABCDEFGHIJKLMNOP/2026/us-east-1/s3, Signature=0123456789abcdef0123456789abcdef": "AKIAABCDEF",
    json.dumps({"private_key": PEM, "client_email": "a@b"}): "MIIEvQ",
    f"{PEM[:40]} and no more": "MIIEvQ",
    "[default]\naws_secret_access_key = wJalrXUtnFEMI": "wJalrXUtnFEMI",
    r"{\"access_token\": \"abcdefgh12\"}": "abcdefgh12",
}


@pytest.mark.parametrize("told", FORMS)
def test_a_credential_is_found_by_its_form_where_no_variable_tells_it(told: str, tmp_path: Path) -> None:
    clean = redacted(told, ())
    assert FORMS[told] not in clean
    assert "[secret]" in clean
    assert redacted(clean, ()) == clean
    assert secret_keys({"label": told}) == ["label"]
    assert without_secrets({told: [told]}, ()) == {clean: [clean]}
    (tmp_path / "log").write_text(told)
    scrub_files([tmp_path / "log"], ())
    assert (tmp_path / "log").read_text() == clean


@pytest.mark.parametrize(
    "told",
    [
        "max_tokens=12345678 and ?continuation-token=abcdefghij and tokenizers 0.21.0.dev",
        "the Basic idea of authorization is missing; see user:pass or mailto:a@b.c",
        "http://[::1]:9000/a@b s3://bucket/x:y@z arn:aws:s3:::bucket/a@b",
        "file:///data/a:b@c.tar",
    ],
)
def test_ordinary_text_is_left_alone(told: str) -> None:
    assert redacted(told, ()) == told


def test_files_are_scrubbed(tmp_path: Path) -> None:
    log = tmp_path / "benchmark.log"
    log.write_bytes(b"key hidden-value \xff\n")
    scrub_files([log, tmp_path / "absent"], ["hidden-value"])
    assert log.read_bytes() == b"key [secret] \xff\n"


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"client": {"options": {"secret_access_key": "x"}}}, ["client.options.secret_access_key"]),
        ({"a": [{"password": "x"}]}, ["a[0].password"]),
        (
            {"passwords": ["x", "y"], "password": 12345678, "sse_customer_key": "k"},
            ["passwords", "password", "sse_customer_key"],
        ),
        ({"headers": {"Authorization": "x"}, "connection_string": "y"}, ["headers.Authorization", "connection_string"]),
        ({"target": {"endpoint": "https://me:word@host"}}, ["target.endpoint"]),
        ({"target": {"endpoint": "https://host:9000"}, "token": None, "options": {"part": 8}}, []),
    ],
)
def test_credentials_in_a_configuration_are_found(config: dict[str, object], found: list[str]) -> None:
    assert secret_keys(config) == found


def test_a_credential_under_an_innocent_key_is_found_by_its_value() -> None:
    config = {"client": {"options": {"header": "Bearer 0123456789abcdef"}, "name": "testing!"}, "parts": [{"a": "x"}]}
    assert secret_keys(config, secrets=("0123456789abcdef", "testing!")) == ["client.options.header"]


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("/home/me/data/x.tar is not there", "~/data/x.tar is not there"),
        ("see /home/me.", "see ~."),
        ("file:///home/me/x", "file://~/x"),
        ("path=/home/me:/home/me/bin", "path=~:~/bin"),
        ("/home/melanie/x and /home/me-too and /home/me.d/x", "/home/melanie/x and /home/me-too and /home/me.d/x"),
        ("s3://bucket/home/me/x and /mnt/home/me", "s3://bucket/home/me/x and /mnt/home/me"),
    ],
)
def test_paths_below_the_home_directory_begin_with_a_tilde(told: str, kept: str) -> None:
    assert without_home({told: [told]}, ["/home/me"]) == {kept: [kept]}


def test_a_home_that_is_the_root_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert home_directories() == ()


def test_the_testbed_sees_nothing_of_the_users_account() -> None:
    user = {
        "AWS_PROFILE": "mine", "AWS_SESSION_TOKEN": "t", "AWS_ENDPOINT_URL_S3": "https://elsewhere", "HOME": "/home/me",
        "https_proxy": "http://proxy", "AWS_ACCESS_KEY_ID": "real",
    }  # fmt: skip
    seen = measured_environment(user, testbed=True)
    assert {name for name in seen if name.startswith("AWS_")}.isdisjoint({"AWS_PROFILE", "AWS_SESSION_TOKEN"})
    assert "AWS_ENDPOINT_URL_S3" not in seen
    assert (seen["AWS_ACCESS_KEY_ID"], seen["HOME"]) == ("testbed", "/home/me")
    assert "https_proxy" not in seen
    assert measured_environment(user, testbed=False) == user


def test_a_reason_is_the_end_of_a_message_on_one_line() -> None:
    wrapped = "Caught OSError in DataLoader worker process 0.\nTraceback:\n  File x\n  File y\nOSError: lost"
    told = "RuntimeError: Caught OSError in DataLoader worker process 0. File x File y OSError: lost"
    assert reason_of(RuntimeError(wrapped)) == told
    debug = 'Generic S3 error: no such host\n\nDebug source:\nGeneric {\n    store: "S3",\n},\n)'
    assert reason_of(OSError(debug)) == 'OSError: Generic S3 error: no such host Debug source: Generic { store: "S3",'
    hint = "it is in 'eu-west-1'; set StoreConfig(region='eu-west-1') or StoreConfig(verify_checksums=False)"
    assert reason_of(ValueError(hint)).endswith(
        "set target.region='eu-west-1' or +client.options.verify_checksums=False"
    )
    assert reason_of(KeyError()) == "KeyError"
    assert as_keys("StoreConfig.endpoint must be http://HOST") == "target.endpoint must be http://HOST"
    assert as_keys("StoreConfig.concurrency must be 1 to 1024") == "client.options.concurrency must be 1 to 1024"
    assert len(reason_of(ValueError("x" * 5000))) == 600
