"""A manifest survives being stored, and a damaged one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bucketbench.datagen import DatagenError, DatasetSpec, Manifest, ManifestEntry, ManifestMember

ENTRIES = st.builds(
    ManifestEntry,
    key=st.text(min_size=1, max_size=20),
    size_bytes=st.integers(0, 2**50),
    xxh3_128=st.text("0123456789abcdef", min_size=32, max_size=32),
    members=st.lists(
        st.builds(ManifestMember, name=st.text(), size_bytes=st.integers(0, 2**40), xxh3_128=st.just("0" * 32))
    ).map(tuple),
)


@given(st.lists(ENTRIES, max_size=20))
@example([ManifestEntry(key="line\u2028separator\x85\n", size_bytes=0, xxh3_128="0" * 32)])
def test_round_trip(entries: list[ManifestEntry]) -> None:
    manifest = Manifest(spec=DatasetSpec(num_samples=7), entries=tuple(entries), made_with={"pillow": "13.0.0"})
    assert Manifest.from_bytes(manifest.to_bytes(), source="test") == manifest
    assert manifest.size_bytes == sum(entry.size_bytes for entry in entries)


def test_one_of_the_first_version_is_read() -> None:
    manifest = Manifest(spec=DatasetSpec(num_samples=1), entries=(ManifestEntry(key="a", size_bytes=1, xxh3_128="0"),))
    first = manifest.to_bytes().replace(b'"version": 2', b'"version": 1')
    first = first.replace(b'"samples_per_shard": null, "extensions": ["cls"], ', b"")
    assert b"extensions" not in first
    assert Manifest.from_bytes(first, source="test") == manifest


def test_as_a_file(tmp_path: Path) -> None:
    entry = ManifestEntry(key="ü.jpg", size_bytes=3, xxh3_128="0" * 32)
    manifest = Manifest(spec=DatasetSpec(num_samples=1), entries=(entry,))
    manifest.write(tmp_path / "m.jsonl")
    assert Manifest.read(tmp_path / "m.jsonl") == manifest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content[: content.rindex(b'{"key"')], "not whole"),
        (lambda content: content[:-20], "damaged"),
        (lambda content: b"", "damaged"),
        (lambda content: b"\xff\xfe", "damaged"),
        (lambda content: b"[1]\n", "damaged"),
        (lambda content: content.replace(b'"version": 2', b'"version": 3'), "version 3"),
        (lambda content: content.replace(b'"samples_per_shard": null', b'"samples_per_shard": 4'), "tar shards hold"),
        (lambda content: content.replace(b"bucketbench-manifest", b"other"), "not a data set's manifest"),
    ],
)
def test_what_is_no_whole_manifest_is_refused(change, words: str) -> None:  # type: ignore[no-untyped-def]  # lambdas
    entries = tuple(ManifestEntry(key=f"{i}", size_bytes=i, xxh3_128="0" * 32) for i in range(3))
    content = Manifest(spec=DatasetSpec(num_samples=3), entries=entries).to_bytes()
    with pytest.raises(DatagenError, match=words) as caught:
        Manifest.from_bytes(change(content), source="s3://bucket/m.jsonl")
    assert "s3://bucket/m.jsonl" in str(caught.value)
