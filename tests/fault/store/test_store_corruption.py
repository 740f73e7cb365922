"""No wrong byte gets through unnoticed: bodies damaged on the way are fetched again, damaged objects are refused."""

from __future__ import annotations

import base64
import hashlib
import itertools
import pickle
import random
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from scripted_s3 import Fault, ScriptedS3

from buckettestbed.launch import RunningTestbed, launch_testbed
from torchbucket import ChecksumError, ConfigError, ObjectChangedError, PermissionDeniedError, TransportError
from torchbucket.config import KIB, MIB, RetryConfig, StoreConfig
from torchbucket.store import Read, RequestRecord, Store, open_store
from torchbucket.store.http.checksums import ALGORITHMS

SMALL = random.Random(1).randbytes(100 * KIB)
LARGE = random.Random(2).randbytes(13 * MIB)
PART = 5 * MIB

Opened = Callable[..., Store]


@pytest.fixture(scope="module")
def served() -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], log_requests=20_000) as testbed:
        yield testbed


@pytest.fixture
def testbed(served: RunningTestbed) -> Iterator[RunningTestbed]:
    served.set_faults("none")
    served.reset_counts()
    yield served
    served.set_faults("none")


@pytest.fixture(params=["s3", "gs"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(testbed: RunningTestbed, scheme: str, records: list[RequestRecord]) -> Iterator[Opened]:
    """Opens stores on the testbed's bucket, by one of its two APIs."""
    stores = []

    def make(**fields: object) -> Store:
        settings = {
            "endpoint": testbed.s3_endpoint if scheme == "s3" else testbed.gcs_endpoint,
            "anonymous": True,
            "part_size_bytes": PART,
            "retry": RetryConfig(initial_s=0.001, maximum_s=0.01, max_attempts=4),
            "hedge_share": 0.0,
            **fields,
        }
        stores.append(open_store(f"{scheme}://data", StoreConfig(**settings), observer=records.append))
        return stores[-1]

    yield make
    for one in stores:
        one.close()


def corrupt(**fields: object) -> dict[str, object]:
    return {"kind": "corrupt", **fields}


def gets(testbed: RunningTestbed) -> int:
    requests = testbed.requests()
    return sum(request.method == "GET" for request in requests)


@pytest.mark.parametrize("known", [True, False], ids=["known-size", "unknown-size"])
@pytest.mark.parametrize("into", [True, False], ids=["into", "own-memory"])
def test_a_damaged_byte_of_a_small_object_is_fetched_again(
    testbed: RunningTestbed, store: Opened, known: bool, into: bool
) -> None:
    subject = store()
    subject.write("small", SMALL)
    testbed.reset_counts()
    testbed.set_faults([corrupt(times=2)])
    target = memoryview(bytearray(len(SMALL))) if into else None
    size = len(SMALL) if known else None
    data = subject.submit_read(Read(key="small", size_bytes=size, into=target)).result(60).data
    assert data == SMALL
    assert target is None or target == SMALL
    assert gets(testbed) == 3


def test_a_damaged_byte_in_one_range_of_many_is_fetched_again(testbed: RunningTestbed, store: Opened) -> None:
    subject = store()
    subject.write("large", LARGE)
    for struck, into, known in itertools.product((1, 3), (True, False), (True, False)):
        testbed.set_faults([corrupt(methods=["GET"], nth=struck)])
        target = memoryview(bytearray(len(LARGE))) if into else None
        size = len(LARGE) if known else None
        data = subject.submit_read(Read(key="large", size_bytes=size, into=target)).result(60).data
        case = f"range {struck}, into={into}, known={known}"
        assert data == LARGE, case
        assert target is None or target == LARGE, case


def test_only_what_came_differently_is_fetched_a_third_time(
    testbed: RunningTestbed, store: Opened, records: list[RequestRecord]
) -> None:
    subject = store(concurrency=1)
    subject.write("large", LARGE)
    records.clear()
    # Three ranges: one is damaged the first time, and another, or the same, the second time.
    testbed.set_faults([corrupt(methods=["GET"], nth=2), corrupt(methods=["GET"], nth=6)])
    assert subject.submit_read(Read(key="large", size_bytes=len(LARGE))).result(60).data == LARGE
    reads = sum(record.operation == "get_object" for record in records)
    assert 7 <= reads <= 8


def test_an_epoch_under_frequent_damage_is_right(testbed: RunningTestbed, store: Opened) -> None:
    subject = store(retry=RetryConfig(initial_s=0.001, maximum_s=0.01, max_attempts=20))
    bodies = [random.Random(n).randbytes(1 + 3000 * n) for n in range(64)]
    for number, body in enumerate(bodies):
        subject.write(f"e{number:02}", body)
    testbed.set_faults([corrupt(methods=["GET"], probability=0.3)])
    futures = [
        subject.submit_read(Read(key=f"e{number:02}", size_bytes=len(body))) for number, body in enumerate(bodies)
    ]
    assert [future.result(60).data for future in futures] == bodies


def test_damage_in_every_attempt_is_named(testbed: RunningTestbed, store: Opened, scheme: str) -> None:
    subject = store()
    subject.write("small", SMALL)
    testbed.set_faults([corrupt(methods=["GET"], probability=1.0)])
    with pytest.raises(ChecksumError, match="gave up after 4 attempts") as caught:
        subject.submit_read(Read(key="small", size_bytes=len(SMALL))).result(60)
    error = caught.value
    algorithm = ALGORITHMS[error.algorithm]
    assert error.algorithm == ("crc64nvme" if scheme == "s3" else "crc32c")
    assert error.expected == algorithm.of([SMALL]).text != error.computed
    assert error.attempts == 4
    assert error.uri == f"{scheme}://data/small"
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.expected, copy.computed, copy.attempts) == (
        str(error),
        error.expected,
        error.computed,
        error.attempts,
    )


def test_damage_in_every_fetch_of_a_range_is_named(testbed: RunningTestbed, store: Opened) -> None:
    subject = store()
    subject.write("large", LARGE)
    testbed.set_faults([corrupt(methods=["GET"], probability=1.0)])
    with pytest.raises(ChecksumError, match="3 ranges together") as caught:
        subject.submit_read(Read(key="large", size_bytes=len(LARGE))).result(60)
    assert 2 <= caught.value.attempts <= 4


def test_a_break_and_damage_together_are_mended(testbed: RunningTestbed, store: Opened) -> None:
    subject = store()
    subject.write("small", SMALL)
    # The first answer is damaged near its beginning and ends in the middle; the rest of it comes well.
    testbed.set_faults(
        [
            {"kind": "truncate", "methods": ["GET"], "nth": 1},
            corrupt(methods=["GET"], nth=2),
        ]
    )
    assert subject.submit_read(Read(key="small", size_bytes=len(SMALL))).result(60).data == SMALL


def test_without_verification_bytes_are_as_they_came(testbed: RunningTestbed, store: Opened) -> None:
    subject = store(verify_checksums=False)
    subject.write("small", SMALL)
    testbed.set_faults([corrupt(methods=["GET"], after_bytes=1000)])
    testbed.reset_counts()
    data = bytes(subject.submit_read(Read(key="small", size_bytes=len(SMALL))).result(60).data)
    assert len(data) == len(SMALL)
    assert [at for at in range(len(SMALL)) if data[at] != SMALL[at]] == [1000]
    assert gets(testbed) == 1


def test_a_range_of_an_object_is_not_compared_with_its_checksum(testbed: RunningTestbed, store: Opened) -> None:
    subject = store()
    subject.write("small", SMALL)
    for start, stop in ((0, 10), (10, None), (1, len(SMALL)), (len(SMALL), None), (0, len(SMALL) + 5)):
        assert subject.read("small", start=start, stop=stop).data == SMALL[start:stop]


@pytest.mark.parametrize("into", [True, False], ids=["into", "own-memory"])
def test_an_object_of_unknown_size_costs_no_more_requests_than_it_has_parts(
    testbed: RunningTestbed, store: Opened, scheme: str, into: bool
) -> None:
    subject = store()
    for size, whole, ranges in ((0, 1, 0), (len(SMALL), 1, 0), (PART + MIB, 1, 0), (len(LARGE), 1, 2)):
        subject.write("unknown", LARGE[:size])
        testbed.reset_counts()
        target = memoryview(bytearray(size)) if into else None
        assert subject.submit_read(Read(key="unknown", into=target)).result(60).data == LARGE[:size]
        if scheme == "s3":
            asked = testbed.requests()
            assert [request.method for request in asked] == ["GET"] * (whole + ranges)
            assert sum(request.range_start is None for request in asked) == whole


def test_a_target_that_is_too_short_is_refused_before_it_is_written(testbed: RunningTestbed, store: Opened) -> None:
    subject = store()
    subject.write("large", LARGE)
    subject.write("small", SMALL)
    for key in ("large", "small"):
        target = memoryview(bytearray(len(SMALL) - 1))
        with pytest.raises(ConfigError, match="the target holds"):
            subject.submit_read(Read(key=key, into=target)).result(60)
        assert not any(target)


def test_late_damaged_and_second_requests_together_give_the_right_bytes(testbed: RunningTestbed, store: Opened) -> None:
    subject = store(hedge_share=1.0, retry=RetryConfig(initial_s=0.001, maximum_s=0.01, max_attempts=20))
    bodies = [random.Random(n).randbytes(2000 + n) for n in range(64)]
    for number, body in enumerate(bodies):
        subject.write(f"h{number:02}", body)
    subject.write("large", LARGE)
    delay = {"kind": "delay", "methods": ["GET"], "seconds": 0.15, "probability": 0.1}
    testbed.set_faults([delay, corrupt(methods=["GET"], probability=0.2)])
    for _ in range(3):
        targets = [memoryview(bytearray(len(body))) for body in bodies]
        futures = [
            subject.submit_read(Read(key=f"h{number:02}", size_bytes=len(target), into=target if number % 2 else None))
            for number, target in enumerate(targets)
        ]
        assert [future.result(60).data for future in futures] == bodies
    assert subject.submit_read(Read(key="large", size_bytes=len(LARGE))).result(60).data == LARGE


@pytest.mark.parametrize("size", [0, 1, PART - 1, PART, PART + 1, 2 * PART])
def test_whole_objects_of_every_size_are_read_whatever_is_known(
    testbed: RunningTestbed, store: Opened, size: int
) -> None:
    subject = store()
    subject.write("edge", LARGE[:size])
    assert subject.read("edge").data == LARGE[:size]
    assert subject.submit_read(Read(key="edge", size_bytes=size)).result(60).data == LARGE[:size]
    target = memoryview(bytearray(size + 3))
    assert subject.submit_read(Read(key="edge", into=target)).result(60).data == LARGE[:size]
    assert target[:size] == LARGE[:size]


def put(endpoint: str, key: str, body: bytes, headers: dict[str, str]) -> None:
    """Write by a bare request, so that the headers are the test's own."""
    request = urllib.request.Request(f"{endpoint}/data/{key}", data=body, method="PUT", headers=headers)
    assert urlsplit(endpoint).scheme == "http"
    with urllib.request.urlopen(request, timeout=30) as answer:  # plain HTTP to the testbed
        assert answer.status == 200


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_checksum_that_s3_keeps_is_compared(
    testbed: RunningTestbed, records: list[RequestRecord], name: str
) -> None:
    put(testbed.s3_endpoint, f"by-{name}", SMALL, {f"x-amz-checksum-{name}": ALGORITHMS[name].of([SMALL]).text})
    config = StoreConfig(endpoint=testbed.s3_endpoint, anonymous=True, retry=RetryConfig(initial_s=0.0, max_attempts=2))
    subject = open_store("s3://data", config, observer=records.append)
    try:
        testbed.set_faults([corrupt(methods=["GET"], times=1)])
        assert subject.submit_read(Read(key=f"by-{name}", size_bytes=len(SMALL))).result(60).data == SMALL
        testbed.set_faults([corrupt(methods=["GET"])])
        with pytest.raises(ChecksumError) as caught:
            subject.submit_read(Read(key=f"by-{name}", size_bytes=len(SMALL))).result(60)
        assert caught.value.algorithm == name
    finally:
        subject.close()


@pytest.mark.parametrize("name", ["crc64nvme", "crc32c", "crc32"])
def test_what_is_written_in_parts_has_the_checksum_of_the_full_object(testbed: RunningTestbed, name: str) -> None:
    config = StoreConfig(
        endpoint=testbed.s3_endpoint, anonymous=True, part_size_bytes=PART, concurrency=4, upload_checksum=name
    )
    subject = open_store("s3://data", config)
    try:
        subject.write(f"parts-{name}", LARGE)
        with subject.open_writer(f"streamed-{name}") as writer:
            writer.write(LARGE)
        for key in (f"parts-{name}", f"streamed-{name}"):
            request = urllib.request.Request(
                f"{testbed.s3_endpoint}/data/{key}", method="HEAD", headers={"x-amz-checksum-mode": "ENABLED"}
            )
            with urllib.request.urlopen(request, timeout=30) as answer:  # plain HTTP to the testbed
                assert answer.headers["x-amz-checksum-type"] == "FULL_OBJECT"
                assert answer.headers[f"x-amz-checksum-{name}"] == ALGORITHMS[name].of([LARGE]).text
    finally:
        subject.close()


def keep(server: ScriptedS3, key: str, body: bytes, **headers: str) -> None:
    """Have the scripted server keep an object and answer with these headers, whether it is asked for a range or not."""
    server.objects[key] = body
    server.object_headers[key] = {name.replace("_", "-"): value for name, value in headers.items()}


def crc32(body: bytes) -> str:
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def test_an_object_without_a_checksum_is_read_as_it_comes(server: ScriptedS3, opened: Opened) -> None:
    keep(server, "small", SMALL)
    keep(server, "large", LARGE)
    subject = opened()
    assert subject.read("small").data == SMALL
    assert subject.submit_read(Read(key="large", size_bytes=len(LARGE))).result(60).data == LARGE


@pytest.mark.parametrize(
    "headers",
    [
        {"x_amz_checksum_crc32": f"{crc32(b'parts')}-3", "x_amz_checksum_type": "COMPOSITE"},
        {"x_amz_checksum_crc32": f"{crc32(b'parts')}-3"},
        {"x_amz_checksum_crc32": crc32(b"parts"), "x_amz_checksum_type": "COMPOSITE"},
        {"x_amz_checksum_crc32": "no base64!"},
        {"x_amz_checksum_crc32": base64.b64encode(b"too long").decode()},
        {"x_amz_checksum_md5": "unknown"},
    ],
)
def test_what_is_no_checksum_of_the_full_object_proves_nothing(
    server: ScriptedS3, opened: Opened, headers: dict[str, str]
) -> None:
    keep(server, "small", SMALL, **headers)
    keep(server, "large", LARGE, **headers)
    subject = opened()
    assert subject.read("small").data == SMALL
    assert subject.read("large").data == LARGE
    assert server.count("head_object") == 0  # The answer to a GET without a range has told that there is none.
    assert subject.submit_read(Read(key="large", size_bytes=len(LARGE))).result(60).data == LARGE
    assert server.count("head_object") == 1


def test_a_wrong_stored_checksum_is_named(server: ScriptedS3, opened: Opened) -> None:
    wrong = {"x_amz_checksum_crc32": crc32(b"another"), "x_amz_checksum_type": "FULL_OBJECT"}
    keep(server, "small", SMALL, **wrong)
    keep(server, "large", LARGE, **wrong)
    subject = opened(retry=RetryConfig(initial_s=0.001, max_attempts=3))
    with pytest.raises(ChecksumError, match="gave up after 3 attempts") as caught:
        subject.read("small")
    assert (caught.value.expected, caught.value.computed) == (crc32(b"another"), crc32(SMALL))
    with pytest.raises(ChecksumError) as caught:
        subject.submit_read(Read(key="large", size_bytes=len(LARGE))).result(60)
    assert (caught.value.expected, caught.value.computed) == (crc32(b"another"), crc32(LARGE))
    # Twice the same: a third time would bring it again.
    assert sum("range" in seen.headers for seen in server.of("get_object")) == 6


def test_a_digest_of_a_large_object_accuses_no_range(server: ScriptedS3, opened: Opened) -> None:
    keep(server, "large", LARGE, x_amz_checksum_sha256=ALGORITHMS["sha256"].of([b"another"]).text)
    assert opened().submit_read(Read(key="large", size_bytes=len(LARGE))).result(60).data == LARGE


def test_the_checksum_of_a_part_that_fits_a_range_is_left_alone(server: ScriptedS3, opened: Opened) -> None:
    keep(server, "small", SMALL, x_amz_checksum_crc32=crc32(b"another"))
    assert opened().read("small", start=0, stop=len(SMALL)).data == SMALL


def test_a_checksum_that_is_refused_says_how_to_do_without(server: ScriptedS3, opened: Opened) -> None:
    keep(server, "large", LARGE)
    server.faults["head_object"].append(Fault(status=403))
    with pytest.raises(PermissionDeniedError, match="verify_checksums=False"):
        opened().submit_read(Read(key="large", size_bytes=len(LARGE))).result(60)
    server.faults["head_object"].append(Fault(status=403))
    assert opened(verify_checksums=False).submit_read(Read(key="large", size_bytes=len(LARGE))).result(60).data == LARGE


def test_the_question_for_the_checksum_is_asked_again_and_of_one_version(server: ScriptedS3, opened: Opened) -> None:
    keep(server, "large", LARGE, x_amz_checksum_crc32=crc32(LARGE))
    server.faults["head_object"] += [Fault(status=503), Fault(reset_after=-1)]
    assert opened().submit_read(Read(key="large", size_bytes=len(LARGE))).result(60).data == LARGE
    tag = f'"{hashlib.md5(LARGE).hexdigest()}"'
    assert opened().submit_read(Read(key="large", size_bytes=len(LARGE), version=tag)).result(60).data == LARGE
    assert server.of("head_object")[-1].headers["if-match"] == tag
    with pytest.raises(ObjectChangedError):
        opened().submit_read(Read(key="large", size_bytes=len(LARGE), version='"other"')).result(60)


def test_an_object_that_is_overwritten_after_its_checksum_was_told_is_not_compared_with_it(
    server: ScriptedS3, opened: Opened
) -> None:
    keep(server, "large", LARGE)
    server.faults["get_object"].append(Fault(replace_object=LARGE[::-1]))
    with pytest.raises(ObjectChangedError):
        opened(concurrency=1).submit_read(Read(key="large", size_bytes=len(LARGE))).result(60)
    assert server.seen[0].kind == "head_object"


def test_an_upload_names_the_checksum_of_its_object(server: ScriptedS3, opened: Opened) -> None:
    opened().write("large", LARGE)
    begun, done = server.of("begin_upload")[0].headers, server.of("complete_upload")[0].headers
    assert (begun["x-amz-checksum-algorithm"], begun["x-amz-checksum-type"]) == ("CRC64NVME", "FULL_OBJECT")
    assert done["x-amz-checksum-crc64nvme"] == ALGORITHMS["crc64nvme"].of([LARGE]).text
    opened(upload_checksum="crc32c").write("large", LARGE)
    done = server.of("complete_upload")[1].headers
    assert "x-amz-checksum-crc32c" not in done  # a service from before 2025 would compare it with that of the parts'


@pytest.mark.parametrize(
    ("kind", "right", "raises"),
    [("FULL_OBJECT", True, False), ("FULL_OBJECT", False, True), ("COMPOSITE", False, False), (None, False, False)],
)
def test_an_upload_that_became_another_object_is_named(
    server: ScriptedS3, opened: Opened, kind: str | None, right: bool, raises: bool
) -> None:
    text = ALGORITHMS["crc64nvme"].of([LARGE if right else b"another"]).text
    said = f"<ChecksumCRC64NVME>{text}</ChecksumCRC64NVME>" + (f"<ChecksumType>{kind}</ChecksumType>" if kind else "")
    body = f'<CompleteMultipartUploadResult><ETag>"t-3"</ETag>{said}</CompleteMultipartUploadResult>'
    server.faults["complete_upload"].append(Fault(status=200, body=body.encode(), applied=True))
    if not raises:
        assert opened().write("large", LARGE).version == '"t-3"'
        return
    with pytest.raises(ChecksumError, match="write it anew") as caught:
        opened().write("large", LARGE)
    assert (caught.value.expected, caught.value.computed) == (ALGORITHMS["crc64nvme"].of([LARGE]).text, text)


@pytest.mark.parametrize("into", [True, False], ids=["into", "own-memory"])
def test_an_answer_without_a_length_is_not_trusted(server: ScriptedS3, opened: Opened, into: bool) -> None:
    keep(server, "small", SMALL)
    server.omits_length = True
    target = memoryview(bytearray(len(SMALL))) if into else None
    with pytest.raises(TransportError, match="Content-Length"):
        opened(retry=RetryConfig(initial_s=0.001, max_attempts=2)).submit_read(Read(key="small", into=target)).result(
            60
        )


def test_a_server_that_ignores_ranges_is_cut_short(server: ScriptedS3, opened: Opened) -> None:
    keep(server, "large", LARGE)
    server.ignores_ranges = True
    target = memoryview(bytearray(1000))
    assert opened().submit_read(Read(key="large", start=5, stop=1005, into=target)).result(60).data == LARGE[5:1005]
    assert opened().submit_read(Read(key="large", start=5, stop=1005)).result(60).data == LARGE[5:1005]
