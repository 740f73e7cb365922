"""What lies under a prefix already, as a run lists and reads it: names of every kind, and what is changed meanwhile."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import xxhash
from botocore import UNSIGNED
from botocore.config import Config
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from bucketbench.datagen import DatagenError
from bucketbench.datagen.existing import ExistingSample, existing_samples
from bucketbench.datagen.existing_shards import existing_shards
from bucketbench.datagen.manifest import ManifestEntry, ManifestMember
from bucketbench.scenarios.dataset.expected_samples import samples_in_shards
from buckettestbed.launch import RunningTestbed, launch_testbed

NAMES = ["a b+c%2F.bin", "ünï/日本 1.bin", "x//y", "./c", "q?x=1&y#f", "full/", "~!$'();@,=:", "s*r[1]"]


@pytest.fixture(scope="module")
def testbed() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["theirs"]) as running:
        yield running


@pytest.fixture(scope="module")
def s3(testbed: RunningTestbed) -> Any:
    config = Config(signature_version=UNSIGNED, s3={"addressing_style": "path"})
    return boto3.client("s3", endpoint_url=testbed.s3_endpoint, region_name="us-east-1", config=config)


def listed(testbed: RunningTestbed, prefix: str, *, most: int | None = None, say: Any = print) -> list[ExistingSample]:
    reach = {"endpoint": testbed.s3_endpoint, "region": "us-east-1", "anonymous": True}
    return existing_samples(f"s3://theirs/{prefix}", most=most, say=say, **reach)


def sample(key: str, content: bytes) -> ExistingSample:
    return ExistingSample(key=key, size_bytes=len(content), xxh3_128=xxhash.xxh3_128_hexdigest(content))


def test_names_of_every_kind_are_kept_and_folders_are_no_samples(testbed: RunningTestbed, s3: Any) -> None:
    contents = {name: name.encode() * 7 for name in NAMES} | {"empty.bin": b""}
    for name, content in (contents | {"": b"", "folder/": b""}).items():
        s3.put_object(Bucket="theirs", Key=f"odd/{name}", Body=content)
    assert listed(testbed, "odd/") == [sample(name, contents[name]) for name in sorted(contents)]


def test_of_more_than_are_read_only_the_sizes_are_known(testbed: RunningTestbed, s3: Any) -> None:
    for name in "abc":
        s3.put_object(Bucket="theirs", Key=f"few/{name}", Body=name.encode())
    last = ExistingSample(key="c", size_bytes=1, xxh3_128=None)
    assert listed(testbed, "few/", most=2) == [sample("a", b"a"), sample("b", b"b"), last]


def test_an_object_that_is_overwritten_between_listing_and_reading_is_told(testbed: RunningTestbed, s3: Any) -> None:
    s3.put_object(Bucket="theirs", Key="changing/a", Body=b"first")

    def overwrite(said: str) -> None:
        assert said.startswith("1 objects under s3://theirs/changing/")
        s3.put_object(Bucket="theirs", Key="changing/a", Body=b"other")

    with pytest.raises(DatagenError, match=r"changing/a.*(changed|version|overwritten)"):
        listed(testbed, "changing/", say=overwrite)


def test_gzipped_objects_of_cloud_storage_may_come_decoded(testbed: RunningTestbed) -> None:
    where = {"api_endpoint": testbed.gcs_endpoint}
    bucket = storage.Client(project="p", credentials=AnonymousCredentials(), client_options=where).bucket("theirs")
    packed = gzip.compress(b"content" * 100, mtime=0)
    for name, content in {"cut.gz": packed[:-3], "packed": packed, "plain": b"content"}.items():
        bucket.blob(f"packed/{name}").upload_from_string(content)
    found = existing_samples("gs://theirs/packed/", most=None, say=print, endpoint=testbed.gcs_endpoint, anonymous=True)
    assert found[0] == sample("cut.gz", packed[:-3])
    assert found[1] == ExistingSample(
        key="packed",
        size_bytes=len(packed),
        xxh3_128=xxhash.xxh3_128_hexdigest(packed),
        decoded_size_bytes=700,
        decoded_xxh3_128=xxhash.xxh3_128_hexdigest(b"content" * 100),
    )
    assert found[2].to_json() == {
        "key": "plain", "size_bytes": 7, "xxh3_128": xxhash.xxh3_128_hexdigest(b"content"),
    }  # fmt: skip


def packed(members: dict[str, bytes], *, form: int = tarfile.PAX_FORMAT) -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w", format=form) as archive:
        folder = tarfile.TarInfo("d.v1")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return body.getvalue()


def shards_under(testbed: RunningTestbed, prefix: str) -> list[ManifestEntry]:
    reach = {"endpoint": testbed.s3_endpoint, "region": "us-east-1", "anonymous": True}
    return existing_shards(f"s3://theirs/{prefix}", say=print, **reach)


def test_what_shards_of_somebody_else_hold(testbed: RunningTestbed, s3: Any) -> None:
    members = {"d.v1/a.JPG": b"image", "d.v1/a.cls": b"7", "__own__/x.y": b"", "README": b"no dot", ".hidden": b"x"}
    members |= {f"{'long/' * 40}b.txt": b"t" * 2000}
    body = packed(members)
    for key, content in {"0.tar": body, "1.tar": packed({"c.txt": b""}), "notes.txt": b"no shard", "": b""}.items():
        s3.put_object(Bucket="theirs", Key=f"shards/{key}", Body=content)
    first, second = shards_under(testbed, "shards/")
    assert (first.key, first.size_bytes, first.xxh3_128) == ("0.tar", len(body), xxhash.xxh3_128_hexdigest(body))
    assert first.members == tuple(
        ManifestMember(name=name, size_bytes=len(content), xxh3_128=xxhash.xxh3_128_hexdigest(content))
        for name, content in members.items()
    )
    found = {sample["key"]: set(sample["members"]) for sample in samples_in_shards([first, second])}
    assert found == {"d.v1/a": {"jpg", "cls"}, f"{'long/' * 40}b": {"txt"}, "c": {"txt"}}


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "name ends with .tar"), (b"no archive at all" * 100, "damaged/0.tar is no tar archive")],
)
def test_a_prefix_without_sound_shards_is_refused(
    testbed: RunningTestbed, s3: Any, content: bytes | None, words: str
) -> None:
    key = "damaged/readme.txt" if content is None else "damaged/0.tar"
    s3.put_object(Bucket="theirs", Key=key, Body=content or b"none here")
    with pytest.raises(DatagenError, match=words):
        shards_under(testbed, "damaged/")
