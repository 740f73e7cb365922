"""What a client says that a sample is, held against the list of samples: what is right, and what is found wrong."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xxhash
from PIL import Image

from bucketbench.clients.tar_samples import decoded_image, grouped
from bucketbench.datagen import DatagenError, DatasetSpec, Manifest, ManifestEntry, ManifestMember
from bucketbench.datagen.images import encode_image
from bucketbench.datagen.members import label_of
from bucketbench.scenarios.dataset.expected_samples import expected_samples
from bucketbench.scenarios.dataset.sample_checks import Received, SampleCheck, read_sample_check

SPEC = DatasetSpec(num_samples=3, sample_size_bytes=4000, samples_per_shard=2)
IMAGES = [encode_image(SPEC, index=index, size_bytes=4000) for index in range(3)]
LABELS = [label_of(SPEC, index) for index in range(3)]
IMAGE = decoded_image(IMAGES[0])


def member(name: str, content: bytes) -> ManifestMember:
    return ManifestMember(name=name, size_bytes=len(content), xxh3_128=xxhash.xxh3_128_hexdigest(content))


def shard(key: str, *indices: int) -> ManifestEntry:
    members = [
        member(f"{index:09d}.{extension}", content)
        for index in indices
        for extension, content in (("jpg", IMAGES[index]), ("cls", str(LABELS[index]).encode()))
    ]
    return ManifestEntry(key=key, size_bytes=10240, xxh3_128="0" * 32, members=tuple(members))


MANIFEST = Manifest(spec=SPEC, entries=(shard("a.tar", 0, 1), shard("b.tar", 2)))


def written(tmp_path: Path, manifest: Manifest, *, members: bool, decoded: bool) -> SampleCheck:
    path = tmp_path / "samples.jsonl"
    expected = expected_samples(manifest, members=members, pictures=decoded)
    path.write_text("".join(f"{json.dumps(sample)}\n" for sample in expected))
    return read_sample_check(path, samples="members" if members else "objects", decoded=decoded)


@pytest.fixture
def members(tmp_path: Path) -> SampleCheck:
    return written(tmp_path, MANIFEST, members=True, decoded=False)


@pytest.fixture
def decoded(tmp_path: Path) -> SampleCheck:
    return written(tmp_path, MANIFEST, members=True, decoded=True)


def received(check: SampleCheck, sample: Any, *, due: bool = True) -> Received | str | None:
    return check.received(sample, lambda _: due)


CONTENT = {"a.jpg": b"first", "b.jpg": b"second", "c/d.jpg": b"", "e.gz": b"gzipped"}
GUNZIPPED = b"longer than it was"


@pytest.fixture
def objects(tmp_path: Path) -> SampleCheck:
    entries: list[dict[str, Any]] = [
        {"key": key, "size_bytes": len(data), "xxh3_128": xxhash.xxh3_128_hexdigest(data)}
        for key, data in CONTENT.items()
    ]
    entries[3] |= {"decoded_size_bytes": len(GUNZIPPED), "decoded_xxh3_128": xxhash.xxh3_128_hexdigest(GUNZIPPED)}
    entries.append({"key": "unread", "size_bytes": 3, "xxh3_128": None})
    path = tmp_path / "objects.jsonl"
    path.write_text("\n".join(map(json.dumps, entries)))
    return read_sample_check(path, samples="objects", decoded=False)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_an_object_has_its_position_and_its_size_as_it_is_stored(objects: SampleCheck, kind: type) -> None:
    for position, (key, data) in enumerate(CONTENT.items()):
        assert received(objects, (key, kind(data))) == Received(position, len(data), kind(data), whole=True)
    found = received(objects, ("e.gz", kind(GUNZIPPED)))
    assert isinstance(found, Received)
    assert (found.position, found.size_bytes) == (3, len(CONTENT["e.gz"]))
    quads = memoryview(bytes(8)).cast("Q")
    assert received(objects, ("a.jpg", quads)) == "'a.jpg' arrived with 8 bytes, the manifest has 5"


@pytest.mark.parametrize(
    ("key", "data", "words"),
    [
        ("z.jpg", b"first", "does not have"),
        ("a.jpg", b"firs", "4 bytes, the manifest has 5"),
        ("a.jpg", b"First", "checksum"),
        ("a.jpg", "first", "str, expected bytes"),
        ("a.jpg", None, "NoneType"),
        ("e.gz", GUNZIPPED[:-1] + b"!", "18 bytes, the manifest has 7"),
        (b"a.jpg", b"first", "does not have"),
        (["a.jpg"], b"first", "does not have"),
    ],
)
def test_wrong_content_is_named(objects: SampleCheck, key: object, data: object, words: str) -> None:
    found = received(objects, (key, data))
    assert isinstance(found, str)
    assert words in found


def test_what_is_not_due_is_compared_by_key_and_size_and_said_to_be(
    objects: SampleCheck, members: SampleCheck, decoded: SampleCheck
) -> None:
    damaged = {"jpg": bytes(4000), "cls": str(LABELS[0]).encode()}
    for check, sample, right in (
        (objects, ("a.jpg", b"First"), ("a.jpg", b"first")),
        (objects, ("e.gz", bytes(len(GUNZIPPED))), ("e.gz", GUNZIPPED)),
        (members, ("000000000", damaged), ("000000000", fields_of(0))),
        (decoded, ("000000000", torch.zeros_like(IMAGE), LABELS[0]), ("000000000", IMAGE, LABELS[0])),
    ):
        passed = received(check, sample, due=False)
        assert isinstance(passed, Received)
        assert not passed.whole
        assert isinstance(received(check, sample), str)
        whole = received(check, right)
        assert isinstance(whole, Received)
        assert whole.whole
    for check, sample in (
        (objects, ("a.jpg", b"firs")),
        (objects, ("z.jpg", b"first")),
        (members, ("000000000", fields_of(0) | {"jpg": IMAGES[0][:-1]})),
        (members, ("000000000", {"jpg": IMAGES[0]})),
        (decoded, ("000000000", IMAGE, LABELS[0] + 1)),
        (decoded, ("000000000", IMAGE[0], LABELS[0])),
    ):
        assert isinstance(received(check, sample, due=False), str)


def test_what_is_not_known_is_never_said_to_be_compared_whole(objects: SampleCheck, tmp_path: Path) -> None:
    assert received(objects, ("unread", b"abc")) == Received(4, 3, b"abc", whole=False)
    assert "the content of 4 is known" in objects.described
    (tmp_path / "listed.jsonl").write_text(json.dumps({"key": "k", "size_bytes": 3, "xxh3_128": None}))
    unseen = read_sample_check(tmp_path / "listed.jsonl", samples="objects", decoded=True)
    found = received(unseen, ("k", IMAGE, None))
    assert isinstance(found, Received)
    assert not found.whole


def fields_of(index: int) -> dict[str, Any]:
    return {"jpg": IMAGES[index], "cls": str(LABELS[index]).encode()}


def test_a_sample_of_members_counts_the_bytes_of_all_and_gives_a_model_the_first(members: SampleCheck) -> None:
    assert len(members) == 3
    for index in range(3):
        found = received(members, (f"{index:09d}", fields_of(index)))
        assert found == Received(index, 4000 + len(str(LABELS[index])), IMAGES[index], whole=True)
    view = {"JPG": memoryview(IMAGES[1]), "cls": bytearray(str(LABELS[1]).encode())}
    assert isinstance(received(members, ["000000001", view]), Received)


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (("000000009", fields_of(0)), "'000000009', which is in no shard"),
        (("000000000", fields_of(0) | {"txt": b""}), "the members cls, jpg, txt, its shard has cls, jpg"),
        (("000000000", {"jpg": IMAGES[0]}), "the members jpg, its shard has"),
        (("000000000", fields_of(0) | {"jpg": IMAGES[0][:-1]}), "000000000.jpg arrived with 3999 bytes"),
        (("000000000", fields_of(0) | {"jpg": IMAGES[1]}), "000000000.jpg arrived with other content"),
        (("000000000", fields_of(0) | {"cls": 7}), "000000000.cls arrived as int"),
        (("000000000", IMAGES[0]), "expected a mapping from extension to content"),
        (fields_of(0), "a dict instead of a pair"),
    ],
)
def test_a_sample_of_other_members_is_named(members: SampleCheck, sample: Any, words: str) -> None:
    found = received(members, sample)
    assert isinstance(found, str)
    assert words in found


def test_a_decoded_sample_counts_the_bytes_that_it_was_stored_in(decoded: SampleCheck) -> None:
    for index in range(3):
        image = decoded_image(IMAGES[index])
        found = received(decoded, (f"{index:09d}", image, LABELS[index]))
        assert isinstance(found, Received)
        assert found[:2] == (index, 4000 + len(str(LABELS[index])))
        assert np.array_equal(found.content, image.numpy())


def test_a_decoded_image_may_be_scaled_and_be_of_floats(decoded: SampleCheck) -> None:
    with Image.open(io.BytesIO(IMAGES[1])) as image:
        scaled = torch.from_numpy(np.array(image.resize((300, 100)))).permute(2, 0, 1) / 255
    assert isinstance(received(decoded, ("000000001", scaled, LABELS[1])), Received)


@pytest.mark.parametrize(
    ("image", "label", "words"),
    [
        (decoded_image(IMAGES[1]), LABELS[0], "another image"),
        (IMAGE.flip(0), LABELS[0], "another image"),
        (IMAGE.flip(2), LABELS[0], "another image"),
        (IMAGE.transpose(1, 2), LABELS[0], "another image"),
        (IMAGE[:, : IMAGE.shape[1] // 2], LABELS[0], "another image"),
        (torch.full(IMAGE.shape, float("nan")), LABELS[0], "another image"),
        (torch.zeros_like(IMAGE), LABELS[0], "another image"),
        (IMAGE.permute(1, 2, 0), LABELS[0], "expected a tensor of shape (3, height, width)"),
        (IMAGES[0], LABELS[0], "arrived as bytes"),
        (IMAGE, LABELS[0] + 1, "not the one that was stored"),
        (IMAGE, None, "not the one that was stored"),
    ],
)
def test_another_image_or_label_is_named(decoded: SampleCheck, image: Any, label: Any, words: str) -> None:
    found = received(decoded, ("000000000", image, label))
    assert isinstance(found, str)
    assert words in found


def test_single_objects_can_be_decoded_too_and_have_no_label(tmp_path: Path) -> None:
    entry = ManifestEntry(key="000000000.jpg", size_bytes=4000, xxh3_128="0" * 32)
    manifest = Manifest(spec=replace(SPEC, samples_per_shard=None), entries=(entry,))
    check = written(tmp_path, manifest, members=False, decoded=True)
    found = received(check, ("000000000.jpg", IMAGE, None))
    assert isinstance(found, Received)
    assert found.size_bytes == 4000
    assert isinstance(received(check, ("000000000.jpg", decoded_image(IMAGES[1]), None)), str)


def test_samples_of_one_key_in_two_shards_are_refused() -> None:
    manifest = Manifest(spec=SPEC, entries=(shard("a.tar", 0, 1), shard("b.tar", 1)))
    with pytest.raises(DatagenError, match=r"'000000001' is in a.tar and in b.tar"):
        list(expected_samples(manifest, members=True, pictures=False))


def test_members_that_stand_together_are_one_sample() -> None:
    members = [("d.v1/a.jpg", 1), ("d.v1/a.seg.png", 2), ("b.jpg", 3), ("d.v1/a.txt", 4)]
    assert list(grouped(members)) == [
        ("d.v1/a", {"jpg": 1, "seg.png": 2}), ("b", {"jpg": 3}), ("d.v1/a", {"txt": 4}),
    ]  # fmt: skip
    assert list(grouped([])) == []
