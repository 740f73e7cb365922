"""Every configured client against the testbed: every sample, whole, once, in and out of workers, also over TLS."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import pickle
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from served_clients import CLIENTS, Case, Served, build_client, cases, client_config, put
from torch.utils.data import DataLoader, IterableDataset

from bucketbench.clients.boto3 import make_client
from bucketbench.clients.mounting import missing_tools
from bucketbench.clients.protocol import Target
from bucketbench.errors import UsageError

CASES = cases()
REMOTE = [case for case in CASES if not case.is_local]


# One fork server for all tests, which has what every worker imports, as JobLoader does it, and the dearest clients.
multiprocessing.get_context("forkserver").set_forkserver_preload(["torch.utils.data", "gcsfs", "s3fs"])


def each(found: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", found, ids=str)


@pytest.fixture(autouse=True)
def trust_is_not_carried_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what a client sets in the environment for its own process, which a job's is."""
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def needs_fuse(request: pytest.FixtureRequest) -> None:
    case = getattr(request.node, "callspec", None)
    named = case.params.get("case") if case else None
    if named is not None and named.name == "mount" and (missing := missing_tools()) is not None:
        pytest.skip(f"this machine lacks {missing}")


def samples_of(client: Any, target: Target, *, num_workers: int, passes: int = 1) -> list[tuple[str, bytes]]:
    """What arrives, in each of the passes."""
    method = "fork" if getattr(client, "fork_safe", True) else "forkserver"
    loader = DataLoader(
        client.dataset(target),
        batch_size=4,
        num_workers=num_workers,
        collate_fn=list,
        multiprocessing_context=method if num_workers else None,
        persistent_workers=num_workers > 0,
    )
    found = [[(key, bytes(data)) for batch in loader for key, data in batch] for _ in range(passes)]
    assert all(sorted(one) == sorted(found[0]) for one in found), "the second epoch differs from the first"
    return found[-1]


def check(samples: list[tuple[str, bytes]], served: Served) -> None:
    assert Counter(key for key, _ in samples) == Counter(list(served.contents))
    for key, data in samples:
        assert data == served.contents[key], f"{key} has other content"


# Without workers the same samples arrive over TLS below; without both, at night.
@pytest.mark.parametrize("num_workers", [pytest.param(0, marks=pytest.mark.nightly), 2])
@each(CASES)
def test_every_sample_arrives_whole_and_once(case: Case, num_workers: int, served: Served) -> None:
    client, target = build_client(case.name), served.target_of(case.scheme)
    check(samples_of(client, target, num_workers=num_workers, passes=2), served)


CLASSES = {case: client_config(case.name)["_target_"] for case in REMOTE}


def is_plainest(case: Case) -> bool:
    """Whether no other client of its class and scheme has a shorter name; those are the class with other settings."""
    alike = [other.name for other in REMOTE if (other.scheme, CLASSES[other]) == (case.scheme, CLASSES[case])]
    return case.name == min(alike, key=len)


# With other settings at night: a class is told of certificates in one way.
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if is_plainest(case) else pytest.mark.nightly) for case in REMOTE],
    ids=str,
)
def test_over_tls_with_the_testbeds_authority(case: Case, served_tls: Served) -> None:
    check(samples_of(build_client(case.name), served_tls.target_of(case.scheme), num_workers=0), served_tls)


@each([case for case in REMOTE if case.scheme == "s3"])
def test_without_credentials(case: Case, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    put(replace(served.target, prefix="anonymous/"), {"a": b"first", "b": b"second"})
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    target = replace(served.target, anonymous=True, prefix="anonymous/")
    read = samples_of(build_client(case.name), target, num_workers=0)
    assert sorted(read) == [("a", b"first"), ("b", b"second")]


# What each client says of a bucket that is not there; gcsfs names what it asked for, which an empty bucket has too.
NO_BUCKET = re.compile(r"NoSuchBucket|(?i:bucket does not exist)|there is no bucket|\Ab/nothere/o\Z")
NOTHING_LISTED = re.compile("listing has no object under the prefix")


@each(REMOTE)
def test_a_bucket_that_does_not_exist_is_an_error_and_not_a_listing_of_nothing(case: Case, served: Served) -> None:
    # rclone mounts a bucket that is not there as an empty directory.
    with pytest.raises(Exception, match=NOTHING_LISTED if case.name == "mount" else NO_BUCKET):
        samples_of(build_client(case.name), replace(served.target_of(case.scheme), bucket="nothere"), num_workers=0)


@each(CASES)
def test_a_map_data_set_of_nothing_is_an_error(case: Case, served: Served, tmp_path: Any) -> None:
    target = replace(served.target_of(case.scheme), prefix="sets/none/", local_directory=str(tmp_path))
    client = build_client(case.name)
    if "iterable" in case.name:
        pytest.skip("an iterable data set may list as late as in its workers: the harness finds its samples missing")
    with pytest.raises((UsageError, FileNotFoundError)) as empty:
        client.dataset(target)
    assert not NO_BUCKET.search(str(empty.value))


@each(CASES)
def test_a_data_set_is_of_the_kind_that_its_name_says_and_holds_no_secret(
    case: Case, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-of-a-secret")
    dataset = build_client(case.name).dataset(served.target_of(case.scheme))
    assert isinstance(dataset, IterableDataset) == ("iterable" in case.name)
    assert b"canary-of-a-secret" not in pickle.dumps(dataset)
    assert "canary-of-a-secret" not in repr(dataset)


@pytest.mark.parametrize("name", CLIENTS)
def test_the_configuration_says_what_it_is(name: str) -> None:
    config = client_config(name)
    assert config["name"] == name
    role = "reference" if name == "disk" else "ceiling" if name.startswith("raw") else "contestant"
    assert config["role"] == role
    needed = {"name", "_target_", "role", "requires", "schemes", "options"}
    assert needed <= set(config) <= needed | {"environment", "samples", "decoded"}
    assert set(config["schemes"]) <= {"s3", "gs"}


# What each client cannot name, found by this test and told in docs/clients.md.
_PATHS = {"a//b", "./c", "x/../d", "marker/"}
UNNAMEABLE = {
    "gcsfs-batch": {"s*r[1].bin"},
    "gcsfs-split": {"s*r[1].bin"},
    "mount": _PATHS,
    "obstore": _PATHS,
    "obstore-async": _PATHS,
    "obstore-split": _PATHS,
    "s3fs-batch": {"s*r[1].bin", "marker/"},
    "s3fs-split": {"s*r[1].bin", "marker/"},
}
UNREADABLE = re.compile(r"(?i)invalid path|not found|does not exist|no such file|s\*r\[1\]\.bin")
ODD_KEYS = [
    "a b+c%2F.bin",
    "ünï/日本.bin",
    "q?x=1&y#f.bin",
    "~!$'();@,=:",
    "s*r[1].bin",
    "a//b",
    "./c",
    "x/../d",
    "marker/",
]


@each(REMOTE)
def test_odd_keys(case: Case, served: Served) -> None:
    unnameable = UNNAMEABLE.get(case.name, set())
    nameable = {key: key.encode() for key in ODD_KEYS if key not in unnameable}
    assert dict(read_once(case, served, prefix=f"odd/{case.name}/", contents=nameable)) == nameable
    for key in unnameable:
        is_path = case.name == "mount"  # what is no path is not even listed there
        with pytest.raises(Exception, match=NOTHING_LISTED if is_path else UNREADABLE) as refused:
            read_once(case, served, prefix=f"odd/only-{ODD_KEYS.index(key)}/", contents={key: b"content"})
        # The one object was listed: only reading it by its name fails.
        assert isinstance(refused.value, UsageError) == is_path


def read_once(case: Case, served: Served, *, prefix: str, contents: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    put(replace(served.target, prefix=prefix), contents)
    target = replace(served.target_of(case.scheme), prefix=prefix)
    loader = DataLoader(build_client(case.name).dataset(target), collate_fn=list, batch_size=16)
    return [(key, bytes(data)) for batch in loader for key, data in batch]


def guarded_by(names: set[str], found: list[Case]) -> list[Any]:
    """The cases, those of other clients at night: what each commit runs is what once failed, and one that did not."""
    return [pytest.param(case, marks=[] if case.name in names else pytest.mark.nightly) for case in found]


@pytest.mark.parametrize("case", guarded_by({"obstore-split", "s3fs-batch", "torchbucket-map"}, REMOTE), ids=str)
def test_what_consoles_make_for_folders_stops_nobody(case: Case, served: Served) -> None:
    prefix = f"folders/{case.name}/"
    contents = {"": b"", "in/": b"", "in/it/": b"", "in/a.bin": b"a", "in/empty.bin": b"", "in/it/b.bin": b"b"}
    read = read_once(case, served, prefix=prefix, contents=contents)
    # As the harness takes them: an empty sample whose key is a folder's is none.
    samples = [(key, data) for key, data in read if data or key[-1:] not in ("", "/")]
    assert sorted(samples) == [("in/a.bin", b"a"), ("in/empty.bin", b""), ("in/it/b.bin", b"b")]


ON_GCS = [case for case in REMOTE if case.scheme == "gs"]


@pytest.mark.parametrize("case", guarded_by({"raw-split", "google-cloud-storage"}, ON_GCS), ids=str)
def test_a_gzipped_object_comes_as_it_is_stored_or_decoded(case: Case, served: Served) -> None:
    prefix, content = f"gzipped/{case.name}/", b"content" * 1000
    stored = gzip.compress(content)
    target = replace(served.target, prefix=prefix)
    make_client(target).put_object(Bucket=target.bucket, Key=f"{prefix}a", Body=stored, ContentEncoding="gzip")
    ((key, data),) = read_once(case, served, prefix=prefix, contents={})
    assert key == "a"
    assert data in (stored, content)


@each([Case(name=name, scheme="s3") for name in ("boto3-transfer", "boto3-transfer-sized")])
def test_the_transfer_manager_asks_for_no_size_that_it_was_told(case: Case, served: Served) -> None:
    served.testbed.reset_counts()
    check(samples_of(build_client(case.name), served.target, num_workers=0), served)
    asked = served.testbed.counts()["requests"].get("head_object", 0)
    assert asked == (len(served.contents) if case.name == "boto3-transfer" else 0)


def test_gcsfs_reads_a_large_object_in_ranges_where_it_is_told_to(served: Served) -> None:
    content = random.Random(8).randbytes(11 << 20)  # in ranges of 5 MiB at least
    for name, ranges in (("gcsfs-batch", 1), ("gcsfs-split", 2)):
        served.testbed.reset_counts()
        read = read_once(Case(name=name, scheme="gs"), served, prefix="large/", contents={"large.bin": content})
        assert read == [("large.bin", content)]
        requests = served.testbed.counts()["requests"]
        assert requests.get("get_object_range", 0) + requests.get("get_object", 0) == ranges, requests


def test_an_unknown_reader_names_the_known_ones() -> None:
    from bucketbench.clients.s3torchconnector import S3TorchConnectorMap

    with pytest.raises(UsageError, match="sequential, range"):
        S3TorchConnectorMap(reader="fast")  # type: ignore[arg-type]  # wrong on purpose


def test_disk_says_where_files_are_missing(served: Served, tmp_path: Any) -> None:
    client = build_client("disk")
    with pytest.raises(UsageError, match="no local copy"):
        client.dataset(replace(served.target, local_directory=None))
    with pytest.raises(UsageError, match="no directory"):
        client.dataset(replace(served.target, local_directory=str(tmp_path / "none")))


def test_the_connector_trusts_nobody_unasked(served_tls: Served) -> None:
    """The authority reaches s3torchconnector by the environment; see that this is what made it work."""
    build_client("s3torchconnector-map").dataset(served_tls.target)
    assert os.environ["SSL_CERT_FILE"] == served_tls.target.ca_bundle


def test_obstore_is_given_the_address_that_its_style_needs(served: Served) -> None:
    from bucketbench.clients.obstore import make_store

    target = replace(served.target, endpoint="https://storage.example:9000")
    assert make_store(target).config["endpoint"] == "https://storage.example:9000"
    virtual = make_store(replace(target, path_style=False)).config
    assert virtual["endpoint"] == "https://data.storage.example:9000"


def test_s3torchconnector_says_that_a_region_is_missing(served: Served) -> None:
    with pytest.raises(UsageError, match="region"):
        build_client("s3torchconnector-map").dataset(replace(served.target, region=None))
