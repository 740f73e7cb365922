"""The command torchbucket as a user runs it: output, exit statuses, one line for a mistake."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from torchbucket import StoreConfig
from torchbucket.cli import main
from torchbucket.listing import Manifest, list_objects
from torchbucket.store import open_store
from torchbucket.uri import ObjectURI

SIZES = {"a/one": 1, "a/two": 3_000_000, "b/three": 5, "top": 0}


@pytest.fixture
def tree(tmp_path: Path) -> str:
    root = tmp_path / "tree"
    for name, size in SIZES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x" * size)
    return f"file://{root}/"


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = main(arguments)
    out, err = capsys.readouterr()
    return status, out, err


def test_list_prints_sizes_and_names(tree, monkeypatch, capsys):
    monkeypatch.chdir(Path(tree.removeprefix("file://")).parent)
    status, out, err = run("list", tree, capsys=capsys)
    assert (status, err) == (0, "")
    base = tree.removeprefix("file:///")
    assert [line.split() for line in out.splitlines()] == [[str(SIZES[name]), base + name] for name in sorted(SIZES)]
    for prefix in (f"{tree}a/t", f"/{base}a/t", f"./{Path(base).name}/a/t"):
        status, out, _ = run("list", prefix, capsys=capsys)
        assert (status, out.split()) == (0, ["3000000", f"{base}a/two"])
    assert run("list", f"/{base}".removesuffix("/"), capsys=capsys) == run("list", tree, capsys=capsys)


def test_list_in_json_has_every_name_exactly(capsys):
    store = open_store("memory://command-names")
    names = ["line\nfeed", "escape\x1b[2J", "é", "plain", "tab\t"]
    for name in names:
        store.write(name, b"12")
    status, out, _ = run("list", "memory://command-names", "--format", "json", capsys=capsys)
    found = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert sorted(item["key"] for item in found) == sorted(names)
    assert all(item["size_bytes"] == 2 and item["version"] == store.head(item["key"]).version for item in found)
    _, out, _ = run("list", "memory://command-names", capsys=capsys)
    assert len(out.splitlines()) == len(names)
    assert "\x1b" not in out and "escape\\x1b[2J" in out and "é" in out


def test_summaries_of_a_prefix_and_of_its_manifest_agree(tree, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    status, out, _ = run("manifest", tree, "out.parquet", capsys=capsys)
    assert (status, out) == (0, f"4 objects, 2.9 MiB, in file://{tmp_path}/out.parquet\n")
    assert Manifest.read("out.parquet").listing.version(0) is not None
    documents = []
    for what in (("summary", tree), ("summary", "out.parquet"), ("list", tree, "--summary")):
        status, out, _ = run(*what, "--format", "json", capsys=capsys)
        assert status == 0
        documents.append({name: value for name, value in json.loads(out).items() if name != "uri"})
    assert documents[0] == documents[1] == documents[2]
    assert documents[0]["total_bytes"] == sum(SIZES.values())
    status, out, _ = run("summary", "out.parquet", capsys=capsys)
    assert status == 0
    assert out.splitlines()[0] == "out.parquet: 4 objects, 2.9 MiB"
    assert "smallest 0 bytes, median 1 bytes, largest 2.9 MiB" in out
    assert any(line.split() == ["2", "2.9", "MiB", f"{tree.removeprefix('file:///')}a/"] for line in out.splitlines())
    status, _, _ = run("manifest", tree, "bare.parquet", "--no-versions", capsys=capsys)
    assert (status, Manifest.read("bare.parquet").listing.versions) == (0, None)


def test_options_reach_the_store(testbed, capsys):
    testbed.put_objects("listing", [("command/a", 3), ("command/b", 4)])
    options = ("--endpoint", testbed.s3_endpoint, "--anonymous", "--region", "eu-west-1")
    status, out, err = run("list", "s3://listing/command/", *options, capsys=capsys)
    assert (status, out.split(), err) == (0, ["3", "command/a", "4", "command/b"], "")
    google = ("--endpoint", testbed.gcs_endpoint, "--anonymous")
    status, out, err = run("summary", "gs://listing/command/", *google, capsys=capsys)
    assert (status, out.splitlines()[0], err) == (0, "gs://listing/command/: 2 objects, 7 bytes", "")
    status, out, err = run("manifest", "gs://listing/command/", "gs://listing/m.parquet", *google, capsys=capsys)
    assert (status, err) == (0, "")
    status, out, err = run("summary", "s3://listing/m.parquet", *options, capsys=capsys)
    assert (status, out.splitlines()[0]) == (0, "s3://listing/m.parquet: 2 objects, 7 bytes")
    status, out, err = run("list", "s3://no-such-bucket/", *options, capsys=capsys)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "no bucket s3://no-such-bucket" in err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["list", "nowhere"], 2, "is not an address"),
        (["list", "file://"], 2, "absolute path"),
        (["manifest", "memory://m/", "s3://bucket"], 2, "one file"),
        (["list", "s3://b/", "--endpoint", "ftp://x"], 2, "--endpoint must be"),
        (["list", "s3://b/", "--profile", ""], 2, "--profile must be"),
        (["list", "file:///no/such/directory/"], 1, "list file:///no/such/directory/: no object's name begins with it"),
        (["summary", "/no/such/directory/"], 1, "no object's name"),
        (["manifest", "memory://nothing/in/it/", "m.parquet"], 1, "no object's name"),
        (["summary", "/no/such.parquet"], 1, "no such file"),
        (["list"], 2, "required"),
        ([], 2, "required"),
        (["lst"], 2, "invalid choice"),
        (["list", "memory://m/", "--format", "xml"], 2, "invalid choice"),
    ],
)
def test_mistakes_are_told_without_a_traceback(arguments, status, said, capsys):
    found, out, err = run(*arguments, capsys=capsys)
    assert (found, out) == (status, "")
    assert said in err and "Traceback" not in err
    if not err.startswith("usage:"):
        assert err.startswith("torchbucket: ") and err.count("\n") == 1


def test_a_file_that_is_no_manifest_is_told(tmp_path, capsys):
    (tmp_path / "m.parquet").write_bytes(b"no")
    status, _, err = run("summary", str(tmp_path / "m.parquet"), capsys=capsys)
    assert (status, err.count("\n")) == (1, 1)
    assert "no whole Parquet file of a manifest" in err


def test_help_names_every_command(capsys):
    status, out, _ = run("--help", capsys=capsys)
    assert status == 0
    assert all(f"\n    {name}" in out for name in ("list", "manifest", "summary"))
    for name in ("list", "manifest", "summary"):
        status, out, _ = run(name, "--help", capsys=capsys)
        assert status == 0 and "--endpoint" in out


def test_a_reader_that_goes_away_is_no_error():
    program = (
        "from torchbucket.cli import main\nfrom torchbucket.store import open_store\nimport sys\n"
        "store = open_store('memory://pipe')\n"
        "[store.write(f'name-{i:06}' + 'x' * 200, b'') for i in range(2000)]\n"
        "sys.exit(main(['list', 'memory://pipe']))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_an_interruption_ends_with_130():
    program = (
        "import os, signal, torchbucket.listing.commands.listing as command\n"
        "from torchbucket.cli import main\nimport sys\n"
        "command.list_objects = lambda *a, **k: os.kill(os.getpid(), signal.SIGINT) or [].clear()\n"
        "sys.exit(main(['list', 'memory://interrupted']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "torchbucket: interrupted\n")


def test_names_that_the_outputs_encoding_lacks_are_escaped(tmp_path):
    (tmp_path / "é ☃").write_bytes(b"1")
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    program = [sys.executable, "-m", "torchbucket.cli", "list", str(tmp_path)]
    done = subprocess.run(program, capture_output=True, check=True, env=environment)
    assert done.stdout.rstrip().endswith(rb"/\xe9 \u2603")
    done = subprocess.run([*program, "--format", "json"], capture_output=True, check=True, env=environment)
    assert json.loads(done.stdout.decode("ascii"))["key"] == f"{tmp_path}/é ☃".removeprefix("/")


def test_it_runs_as_a_program():
    program = [sys.executable, "-m", "torchbucket.cli", "--version"]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("torchbucket ")


def test_a_listing_by_command_is_that_of_the_store(tree, capsys):
    _, out, _ = run("list", tree, capsys=capsys)
    location = ObjectURI.parse(tree)
    listing = list_objects(open_store(location, StoreConfig()), location.key)
    assert [line.split()[1] for line in out.splitlines()] == list(listing.keys)
