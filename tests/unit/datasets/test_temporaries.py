"""The sweep of temporary objects and open uploads: by exact name and by age, and nothing else."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from torchbucket import ConfigError, IterableDataset, sweep_temporaries
from torchbucket.cli import main
from torchbucket.store import open_store
from torchbucket.store.temporary_names import temporary_key

DAY_S = 86400.0


def look_alikes(name: str) -> list[str]:
    """Names that differ from a temporary object's by little."""
    key, _, tail = name.rpartition(".torchbucket-temporary-")
    day, random = tail.split("-")
    return [
        f"{key}.torchbucket-temporary-{text}"
        for text in (
            random,
            f"{day[:-1]}-{random}",
            f"20261399T990000Z-{random}",
            f"{day}-{random[:-1]}",
            f"{day}-{random}0",
            f"{day}-{random.upper()}G",
            f"{day}-{random}.jpg",
            f"{day}-{random}/",
            f"{day}-{random}\n",
            "",
        )
    ] + [f"{key}.torchbucket_temporary-{day}-{random}", f"{key}README.txt"]


def aged(name: str, age_s: float) -> str:
    """The name as it would have been made some time ago."""
    then = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() - age_s))
    return re.sub(r"\d{8}T\d{6}Z", then, name)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A bucket of files, whose times can be set, with temporaries of several ages, look-alikes and other objects."""
    for label, name_age_s, change_age_s in (
        ("old", 2 * DAY_S, 2 * DAY_S),
        ("intermediate", 2 * DAY_S, 2 * DAY_S),
        ("beside a sample", 2 * DAY_S, 2 * DAY_S),
        ("young", 3600, 3600),
        ("changed since", 2 * DAY_S, 3600),
        ("a clock that is wrong", 3600, 2 * DAY_S),
    ):
        name = aged(temporary_key("train/1.jpg" if label == "beside a sample" else "scratch/0123"), name_age_s)
        if label == "intermediate":
            name = aged(temporary_key(name), name_age_s)
        write(tmp_path / name, label, change_age_s)
    for name in look_alikes(aged(temporary_key("scratch/0123"), 2 * DAY_S)):
        if not name.endswith("/"):  # a file cannot have such a name
            write(tmp_path / name, "a look-alike", 2 * DAY_S)
    write(tmp_path / "train/1.jpg", "a sample", 2 * DAY_S)
    return tmp_path


def write(path: Path, content: str, age_s: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, (time.time() - age_s,) * 2)


def contents(directory: Path) -> Counter[str]:
    return Counter(path.read_text() for path in directory.rglob("*") if path.is_file())


def test_only_what_has_the_name_and_the_age_is_removed(directory):
    before = contents(directory)
    uri = directory
    would = sweep_temporaries(uri, dry_run=True)
    assert contents(directory) == before
    swept = sweep_temporaries(uri)
    assert swept == would
    assert (len(swept.removed), swept.young, swept.aborted) == (3, 3, ())
    assert swept.removed_bytes == len("old") + len("intermediate") + len("beside a sample")
    assert before - contents(directory) == Counter(["old", "intermediate", "beside a sample"])
    assert sweep_temporaries(uri).removed == ()
    assert len(sweep_temporaries(uri, older_than_s=1800).removed) == 3
    assert contents(directory) == Counter({"a look-alike": before["a look-alike"], "a sample": 1})


def test_a_data_set_reads_no_temporary_object_as_a_sample():
    """As a killed write on a condition leaves one beside its target on Cloud Storage."""
    store = open_store("memory://left-by-a-writer")
    for key in ("train/1", temporary_key("train/1"), "train/2"):
        store.write(key, key[-1:].encode())
    assert list(IterableDataset.from_prefix("memory://left-by-a-writer/train/")) == [b"1", b"2"]
    assert len(list(store.list("train/"))) == 3  # The store hides nothing.


def test_names_that_no_file_can_have_are_kept_too():
    store = open_store("memory://sweep-look-alikes")
    name = temporary_key("k")
    others = look_alikes(name)
    for key in (name, *others):
        store.write(key, b"")
    assert [info.key for info in sweep_temporaries(store.uri, older_than_s=0).removed] == [name]
    assert sorted(info.key for info in store.list()) == sorted(others)


def test_only_what_is_under_the_prefix_is_swept():
    store = open_store("memory://sweep-prefix")
    names = [temporary_key(f"{prefix}k") for prefix in ("a/", "scratch/")]
    for name in names:
        store.write(name, b"")
    assert sweep_temporaries("memory://sweep-prefix/scr", older_than_s=0).removed[0].key == names[1]
    assert [info.key for info in store.list()] == names[:1]


def test_a_file_that_a_killed_writer_left_is_an_upload_of_ours(tmp_path):
    store = open_store(f"file://{tmp_path}")
    store.write("a/done", b"content")
    writer = store.open_writer("a/k")
    writer.write(b"half")
    assert sweep_temporaries(f"file://{tmp_path}/").young == 1
    swept = sweep_temporaries(f"file://{tmp_path}/", older_than_s=0)
    assert [upload.key for upload in swept.aborted] == [f"{tmp_path}/a/k".removeprefix("/")]
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["done"]
    writer.abort()


def test_an_object_written_anew_meanwhile_is_kept(monkeypatch):
    store = open_store("memory://sweep-race")
    name = temporary_key("k")
    store.write(name, b"old")
    listed = list(store.list())
    store.write(name, b"new")
    monkeypatch.setattr(type(store), "list", lambda self, prefix="", *, start_after="": iter(listed))
    assert sweep_temporaries(store.uri, older_than_s=0).removed == ()
    assert store.read(name).data == b"new"


@pytest.mark.parametrize(
    ("uri", "age_s", "message"),
    [
        ("memory://b", -1, "older_than_s must be seconds from 0; got -1"),
        ("memory://b", float("nan"), "older_than_s must be seconds"),
        ("memory://b", "24h", "older_than_s must be seconds from 0; got '24h'"),
        ("memory://b", True, "older_than_s must be seconds from 0; got True"),
        ("b", 0, "is not an address"),
    ],
)
def test_mistakes_are_found_before_anything_is_listed(uri, age_s, message):
    with pytest.raises(ConfigError, match=message):
        sweep_temporaries(uri, older_than_s=age_s)


def test_the_command_prints_what_it_removes(directory, capsys):
    uri = str(directory)
    assert main(["sweep-temporaries", uri, "--dry-run"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(".torchbucket-temporary-" in line and line.startswith(f"file://{directory}/") for line in lines)
    assert last.startswith("3 temporary objects would be removed, ")
    assert last.endswith("; 0 open uploads would be aborted; 3 younger than 24h left")
    assert main(["sweep-temporaries", uri, "--older-than", "30m", "--uploads"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("6 temporary objects removed")
    assert main(["sweep-temporaries", uri, "--older-than", "1.5h"]) == 2
    assert "a number and one of s, m, h and d, such as 24h; got '1.5h'" in capsys.readouterr().err
