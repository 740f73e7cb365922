"""Names of temporary objects, and their sweep: by exact name and by age, and nothing else."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from torchbucket import ConfigError, sweep_temporaries
from torchbucket.cli import main
from torchbucket.datasets.temporaries.names import TEMPORARIES_PREFIX, TemporaryNames, made_at_s
from torchbucket.store import open_store

DAY_S = 86400.0


def test_names_say_who_made_them_and_when_and_are_never_alike(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "Node_7.Example.COM" + "x" * 60)
    before_s = int(time.time())
    makers = [TemporaryNames("t/") for _ in range(3)]
    names = [maker.make() for maker in makers for _ in range(4)]
    assert len(set(names)) == 12
    for name in names:
        assert re.fullmatch(r"t/[0-9a-f]{32}-\d{8}T\d{6}Z-\d+-\d{6}-node-7-example-comx{22}", name)
        assert before_s <= made_at_s(name, "t/") <= time.time()
        assert made_at_s(name, "u/") is None
    monkeypatch.setattr("socket.gethostname", lambda: "日本")
    assert made_at_s(TemporaryNames("t/").make(), "t/") is not None


def look_alikes(name: str) -> list[str]:
    """Names that differ from a temporary object's by little."""
    random, day, *rest = name.removeprefix(TEMPORARIES_PREFIX).split("-")
    tail = "-".join(rest)
    inner = [
        f"{random}-{day}",
        f"{random[:-1]}-{day}-{tail}",
        f"{random.upper()}G-{day}-{tail}",
        f"{random}-20261399T990000Z-{tail}",
        f"{random}-{day[:-1]}-{tail}",
        f"{random}-{day}-{tail}.jpg",
        f"{random}-{day}-{tail}/",
        f"{random}-{day}-{tail}\n",
        f"x{random}-{day}-{tail}",
        f"sub/{random}-{day}-{tail}",
        f"{random}-{day}-{tail}.torchbucket-temporary-12345",
        "README.txt",
        "",
    ]
    return [TEMPORARIES_PREFIX + text for text in inner] + [f"other/{random}-{day}-{tail}"]


def aged(name: str, age_s: float) -> str:
    """The name as it would have been made some time ago."""
    then = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() - age_s))
    return re.sub(r"\d{8}T\d{6}Z", then, name)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A bucket of files, whose times can be set, with temporaries of several ages, look-alikes and other objects."""
    names = TemporaryNames(TEMPORARIES_PREFIX)
    for label, name_age_s, change_age_s in (
        ("old", 2 * DAY_S, 2 * DAY_S),
        ("intermediate", 2 * DAY_S, 2 * DAY_S),
        ("young", 3600, 3600),
        ("changed since", 2 * DAY_S, 3600),
        ("a clock that is wrong", 3600, 2 * DAY_S),
    ):
        name = aged(names.make(), name_age_s) + ".torchbucket-temporary-0123456789abcdef" * (label == "intermediate")
        write(tmp_path / name, label, change_age_s)
    for name in look_alikes(aged(names.make(), 2 * DAY_S)):
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
    uri = f"file://{directory}/"
    would = sweep_temporaries(uri, dry_run=True)
    assert contents(directory) == before
    swept = sweep_temporaries(uri)
    assert swept == would
    assert (len(swept.removed), swept.young, swept.foreign) == (2, 3, before["a look-alike"] - 1)  # one lies elsewhere
    assert swept.removed_bytes == len("old") + len("intermediate")
    assert before - contents(directory) == Counter(["old", "intermediate"])
    assert sweep_temporaries(uri).removed == ()
    assert len(sweep_temporaries(uri, older_than_s=1800).removed) == 3
    assert contents(directory) == Counter({"a look-alike": before["a look-alike"], "a sample": 1})


def test_names_that_no_file_can_have_are_kept_too():
    store = open_store("memory://sweep-look-alikes")
    name = TemporaryNames(TEMPORARIES_PREFIX).make()
    others = look_alikes(name)
    for key in (name, *others):
        store.write(key, b"")
    assert [info.key for info in sweep_temporaries(store.uri, older_than_s=0).removed] == [name]
    assert sorted(info.key for info in store.list()) == sorted(others)


def test_another_prefix_is_swept_where_it_is_named():
    store = open_store("memory://sweep-prefix")
    names = [TemporaryNames(prefix).make() for prefix in (TEMPORARIES_PREFIX, "scratch/")]
    for name in names:
        store.write(name, b"")
    assert sweep_temporaries("memory://sweep-prefix/scratch/", older_than_s=0).removed[0].key == names[1]
    assert [info.key for info in store.list()] == names[:1]


def test_an_object_written_anew_meanwhile_is_kept(monkeypatch):
    store = open_store("memory://sweep-race")
    name = TemporaryNames(TEMPORARIES_PREFIX).make()
    store.write(name, b"old")
    listed = list(store.list(TEMPORARIES_PREFIX))
    store.write(name, b"new")
    monkeypatch.setattr(type(store), "list", lambda self, prefix="", *, start_after="": iter(listed))
    assert sweep_temporaries(store.uri, older_than_s=0).removed == ()
    assert store.read(name).data == b"new"


@pytest.mark.parametrize(
    ("uri", "age_s", "message"),
    [
        ("memory://b", -1, "older_than_s must be seconds from 0; got -1"),
        ("memory://b", float("nan"), "older_than_s must be seconds"),
        ("memory://b/train", 0, "a text that ends with a slash"),
        ("b", 0, "is not an address"),
    ],
)
def test_mistakes_are_found_before_anything_is_listed(uri, age_s, message):
    with pytest.raises(ConfigError, match=message):
        sweep_temporaries(uri, older_than_s=age_s)


def test_the_command_prints_what_it_removes(directory, capsys):
    uri = f"file://{directory}/"
    assert main(["sweep-temporaries", uri, "--dry-run"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"file://{directory}/{TEMPORARIES_PREFIX}") for line in lines)
    assert last.startswith("2 temporary objects would be removed, ")
    assert last.endswith("; 3 younger than 24h and 11 other objects left")
    assert main(["sweep-temporaries", uri, "--older-than", "30m"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("5 temporary objects removed")
    assert main(["sweep-temporaries", uri, "--older-than", "1.5h"]) == 2
    assert "a number and one of s, m, h and d, such as 24h; got '1.5h'" in capsys.readouterr().err
