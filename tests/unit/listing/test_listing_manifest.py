"""Manifests: what is written is read, from any place, and what is no manifest is refused with the reason."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import UTC, datetime

import pyarrow
import pyarrow.parquet
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from torchbucket import ConfigError, NotFoundError
from torchbucket.listing import Listing, Manifest, ManifestError
from torchbucket.listing.blocks import Block
from torchbucket.store import open_store
from torchbucket.uri import ObjectURI

ROOT = ObjectURI(scheme="memory", bucket="manifests")
MADE_AT = datetime(2026, 11, 28, 4, 3, 52, tzinfo=UTC)
KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10)


def manifest_of(listing: Listing, prefix: str = "") -> Manifest:
    return Manifest(root=ROOT, prefix=prefix, made_at=MADE_AT, listing=listing)


@settings(max_examples=examples(50))
@given(
    st.lists(
        st.tuples(KEYS, st.one_of(st.just(-1), st.integers(0, 1 << 50)), st.one_of(st.none(), st.just("7"), KEYS)),
        max_size=20,
    )
)
def test_what_is_written_is_read(objects):
    blocks = [Block.of(*map(list, zip(*objects, strict=True)))] if objects else []
    manifest_of(Listing.joined(blocks), "p/é").write("memory://manifests/m.parquet")
    found = Manifest.read("memory://manifests/m.parquet")
    assert (found.root, found.prefix, found.made_at) == (ROOT, "p/é", MADE_AT)
    assert list(found.listing.keys) == [key for key, _, _ in objects]
    assert found.listing.sizes_bytes.tolist() == [size for _, size, _ in objects]
    assert [found.listing.version(i) for i in range(len(objects))] == [version for _, _, version in objects]


def test_a_prefix_becomes_a_manifest_in_a_directory_and_by_a_path(tmp_path, monkeypatch):
    store = open_store("memory://source")
    for number in range(1200):
        store.write(f"train/{number:05}", b"x" * (number % 9))
    made = Manifest.from_prefix("memory://source/train/")
    monkeypatch.chdir(tmp_path)
    made.write("here.parquet")
    made.write(f"file://{tmp_path}/deep/er/m.parquet")
    for place in ("here.parquet", str(tmp_path / "here.parquet"), f"file://{tmp_path}/deep/er/m.parquet"):
        found = Manifest.read(place)
        assert (str(found.root.root), found.prefix) == ("memory://source", "train/")
        assert found.listing.keys == [f"train/{number:05}" for number in range(1200)]
        assert found.listing.version(3) == store.head("train/00003").version
        assert found.summary().total_bytes == sum(number % 9 for number in range(1200))
    assert (tmp_path / "here.parquet").stat().st_size < 1200 * 5
    assert Manifest.from_prefix("memory://source/train/", versions=False).listing.versions is None


def test_a_directorys_root_is_kept(tmp_path):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "k").write_bytes(b"1")
    Manifest.from_prefix(f"file://{tmp_path}/a b/").write(str(tmp_path / "m.parquet"))
    found = Manifest.read(tmp_path / "m.parquet")
    assert (found.root.root, list(found.listing.keys)) == ("file:///", [f"{tmp_path}/a b/k".removeprefix("/")])
    relative = Manifest(
        root=ObjectURI.parse_root(tmp_path / "a b"), prefix="", made_at=MADE_AT, listing=Listing.of_keys(["k"])
    )
    relative.write(tmp_path / "relative.parquet")
    assert Manifest.read(tmp_path / "relative.parquet").root.root == f"file://{tmp_path}/a b"


def parquet(columns: dict[str, list[object]], description: object) -> bytes:
    table = pyarrow.table(columns).replace_schema_metadata({"torchbucket.manifest": json.dumps(description)})
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue()


GOOD = {"schema_version": 1, "count": 1, "root": "s3://b", "prefix": "", "made_at": MADE_AT.isoformat()}
COLUMNS: dict[str, list[object]] = {"key": ["a"], "size_bytes": [1], "version": ["v"]}


def whole() -> bytes:
    manifest_of(Listing.collect((f"k{i}", i) for i in range(3000))).write("memory://manifests/whole.parquet")
    return bytes(open_store("memory://manifests").read("whole.parquet").data)


def damaged() -> bytes:
    data = bytearray(whole())
    data[len(data) // 8] ^= 0xFF
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (lambda: b"", "no whole Parquet file"),
        (lambda: b"PAR1", "no whole Parquet file"),
        (lambda: b"{}" * 40, "no whole Parquet file"),
        (lambda: whole()[:-1], "no whole Parquet file"),
        (lambda: whole()[:100], "no whole Parquet file"),
        (damaged, "no whole Parquet file"),
        (lambda: parquet(COLUMNS, GOOD | {"schema_version": 2}), "of version 2 .* reads version 1"),
        (lambda: parquet(COLUMNS, GOOD | {"schema_version": "1"}), "of version '1'"),
        (lambda: parquet(COLUMNS, {"x": 1}), "no manifest is in"),
        (lambda: parquet(COLUMNS, [1]), "no manifest is in"),
        (lambda: parquet({"key": ["a"], "size_bytes": [1]}, GOOD), "expected the columns key, size_bytes, version"),
        (lambda: parquet(COLUMNS, GOOD | {"count": 2}), "1 objects in a manifest of 2"),
        (lambda: parquet(COLUMNS | {"size_bytes": [-4]}, GOOD), "negative size"),
        (lambda: parquet(COLUMNS | {"key": [None]}, GOOD), "no whole Parquet file"),
        (lambda: parquet(COLUMNS | {"size_bytes": ["big"]}, GOOD), "no whole Parquet file"),
        (lambda: parquet(COLUMNS, GOOD | {"root": "nowhere"}), "where its objects are"),
        (lambda: parquet(COLUMNS, GOOD | {"made_at": "yesterday"}), "where its objects are"),
        (lambda: parquet(COLUMNS, {name: GOOD[name] for name in GOOD if name != "prefix"}), "where its objects are"),
    ],
)
def test_what_is_no_manifest_is_refused(data, why):
    open_store("memory://manifests").write("bad.parquet", data())
    with pytest.raises(ManifestError, match=why) as raised:
        Manifest.read("memory://manifests/bad.parquet")
    assert "memory://manifests/bad.parquet" in str(raised.value)


def test_a_manifest_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(NotFoundError):
        Manifest.read(str(tmp_path / "none.parquet"))


def test_wrong_arguments_say_what_is_expected():
    with pytest.raises(ConfigError, match="one file"):
        Manifest.read("s3://bucket")
    with pytest.raises(ConfigError, match="bucket or directory"):
        Manifest(root=ObjectURI.parse("s3://b/k"), prefix="", made_at=MADE_AT, listing=Listing.of_keys([]))
    with pytest.raises(ConfigError, match="time zone"):
        Manifest(root=ROOT, prefix="", made_at=datetime(2026, 1, 1), listing=Listing.of_keys([]))


def test_pyarrow_is_loaded_when_used_and_named_when_missing():
    program = """
import sys
from torchbucket.listing import Listing, Manifest
assert "pyarrow" not in sys.modules
sys.modules["pyarrow"] = None
try:
    Manifest.from_prefix("memory://x/").write("memory://x/m.parquet")
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'torchbucket[parquet]'" in done.stdout
