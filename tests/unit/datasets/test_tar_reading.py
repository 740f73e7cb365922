"""What is asked for when shards are read: ranges ahead within the budget, headers alone where that is wanted."""

from __future__ import annotations

import pytest
from tar_shards import entry, key_of, shard

import torchbucket.datasets.tar.scan
from torchbucket import ConfigError, ObjectChangedError, TarDataset, TransportError, TruncatedError, expand_braces
from torchbucket.datasets.tar.header import parse_header

MIB = 1 << 20


def shards(count: int, samples: int, size: int) -> tuple[dict[str, bytes], list[str]]:
    bodies, keys = {}, []
    for number in range(count):
        of_shard = [f"{number}-{sample:03}" for sample in range(samples)]
        bodies[f"{number}.tar"] = shard(of_shard, [size] * samples)
        keys += of_shard
    return bodies, keys


def waiting_bytes(store) -> list[int]:
    """How many bytes of requests were out at each wait; every answer arrives when it is waited for."""
    found = []
    for answered, waiting in enumerate(store.waits):
        out = store.requests[answered : answered + len(waiting)]
        found.append(sum(request.stop - request.start for request in out))
    return found


@pytest.mark.parametrize("budget", [MIB, 4 * MIB])
def test_ranges_are_asked_for_ahead_over_several_shards_and_within_the_budget(scripted, budget):
    bodies, keys = shards(5, 12, 200_000)
    store = scripted(bodies)
    dataset = TarDataset.from_prefix("memory://scripted/", transform=key_of, prefetch_bytes=budget)
    assert list(dataset) == keys
    assert budget // 2 < max(waiting_bytes(store)) <= budget
    assert max(len(set(waiting)) for waiting in store.waits) >= 2 - (budget == MIB)
    # No byte was asked for twice, and none left out.
    for key, body in bodies.items():
        ranges = [(request.start, request.stop) for request in store.requests if request.key == key]
        assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
        assert ranges[-1][1] == len(body)
    assert store.outstanding() == []


def test_a_sample_larger_than_the_budget_is_read_all_the_same(scripted):
    bodies, keys = shards(2, 3, MIB)
    scripted(bodies)
    for fetch in ("whole", "lazy"):
        dataset = TarDataset.from_prefix("memory://scripted/", transform=key_of, prefetch_bytes=1000, fetch=fetch)
        assert list(dataset) == keys


def test_shards_of_unknown_size_are_read_without_asking_for_it(scripted):
    bodies, keys = shards(3, 12, 200_000)
    store = scripted(bodies)
    for fetch in ("whole", "lazy"):
        dataset = TarDataset.from_objects(
            "memory://scripted/{0..2}.tar", transform=key_of, prefetch_bytes=4 * MIB, fetch=fetch
        )
        assert list(dataset) == keys
    assert store.heads == []


def test_headers_alone_are_read_where_the_rest_is_not_wanted(scripted):
    bodies, keys = shards(3, 6, 2 * MIB)
    store = scripted(bodies)
    dataset = TarDataset.from_prefix(
        "memory://scripted/", transform=lambda sample: (sample.key, dict(sample)), extensions=["cls"], fetch="lazy"
    )
    assert list(dataset) == [(key, {"cls": key.encode()}) for key in keys]
    assert sum(request.stop - request.start for request in store.requests) < 0.05 * sum(map(len, bodies.values()))
    # All three shards are gone through at once.
    assert {key for waiting in store.waits[:2] for key in waiting} == set(bodies)


def test_small_gaps_are_read_through_in_long_ranges(scripted):
    bodies, keys = shards(1, 400, 4000)
    store = scripted(bodies)
    dataset = TarDataset.from_prefix(
        "memory://scripted/", transform=lambda sample: sample.key, extensions=["cls"], fetch="lazy"
    )
    assert list(dataset) == keys
    assert len(store.requests) < 12


@pytest.mark.parametrize("fetch", ["whole", "lazy"])
def test_closing_and_leaving_early_drop_what_is_left(scripted, fetch):
    bodies, keys = shards(20, 4, 100_000)
    store = scripted(bodies)
    dataset = TarDataset.from_prefix("memory://scripted/", transform=key_of, fetch=fetch)
    samples = iter(dataset)
    assert store.requests == []
    assert next(samples) == keys[0]
    assert store.outstanding()
    samples.close()
    assert store.outstanding() == []
    assert list(samples) == []
    for _ in dataset:
        break
    assert store.outstanding() == []


@pytest.mark.parametrize("fetch", ["whole", "lazy"])
def test_a_failed_read_comes_in_its_turn_names_the_shard_and_is_no_end(scripted, fetch):
    bodies, keys = shards(4, 3, 1000)
    store = scripted(bodies)
    store.failures["2.tar"] = TransportError("the connection was reset")
    samples = iter(TarDataset.from_prefix("memory://scripted/", transform=key_of, fetch=fetch))
    assert [next(samples) for _ in range(6)] == keys[:6]
    with pytest.raises(TransportError) as caught:
        next(samples)
    assert "while reading memory://scripted/2.tar" in caught.value.__notes__
    with pytest.raises(RuntimeError, match="this iteration failed before"):
        next(samples)
    assert store.outstanding() == []


def test_a_shard_overwritten_meanwhile_is_found_out(scripted):
    bodies, _ = shards(1, 40, 100_000)
    store = scripted(bodies)
    samples = iter(TarDataset.from_prefix("memory://scripted/", transform=key_of, prefetch_bytes=MIB))
    next(samples)
    store.versions["0.tar"] = "2"
    with pytest.raises(ObjectChangedError, match=r"0\.tar: expected size \d+, version 1; found size \d+, version 2"):
        list(samples)
    store.announced_bytes = 700  # listed with another size than the reads then find
    dataset = TarDataset.from_prefix("memory://scripted/", transform=key_of)
    store.announced_bytes = None
    with pytest.raises(ObjectChangedError, match=r"0\.tar: expected size 700; found size \d+, version 2"):
        list(dataset)


def test_a_store_that_answers_short_is_found_out(scripted):
    bodies, _ = shards(1, 4, 1000)
    store = scripted(bodies)
    store.announced_bytes = len(bodies["0.tar"])
    store.bodies["0.tar"] = bodies["0.tar"][:-1]
    with pytest.raises(TruncatedError, match=r"0\.tar: the store answered a read of \d+ bytes from 0 with \d+ bytes"):
        list(TarDataset.from_prefix("memory://scripted/"))


def test_an_exception_in_transform_names_the_sample(scripted):
    bodies, _ = shards(2, 2, 10)
    scripted(bodies)
    with pytest.raises(KeyError) as caught:
        list(TarDataset.from_prefix("memory://scripted/", transform=lambda sample: sample["png"]))
    assert caught.value.__notes__ == ["while transforming memory://scripted/0.tar#0-000"]


def test_only_names_that_end_in_tar_are_shards_unless_others_are_selected(scripted):
    bodies, keys = shards(2, 2, 10)
    scripted(bodies | {"index.json": b"{}", "0.tar.idx": b""})
    assert list(TarDataset.from_prefix("memory://scripted/", transform=key_of)) == keys
    one = TarDataset.from_prefix("memory://scripted/", transform=key_of, select=lambda info: info.key == "1.tar")
    assert list(one) == keys[2:]
    assert list(one.keys) == ["1.tar"]
    assert repr(one) == "TarDataset(1 shards in memory://scripted/)"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"prefetch_bytes": 0}, "prefetch_bytes must be at least 1; got 0"),
        ({"fetch": "eager"}, "fetch of tar shards must be 'whole' or 'lazy'; got 'eager'"),
        ({"shuffle": 1}, "shuffle must be True or False; got 1"),
        ({"shuffle_buffer": -1}, "shuffle_buffer must be a number of samples from 0; got -1"),
        ({"shuffle_buffer": True}, "shuffle_buffer must be a number"),
        ({"seed": "x"}, "seed must be a whole number; got 'x'"),
        ({"extensions": "jpg"}, r"several texts, such as \['jpg'\]; got one text"),
        ({"extensions": []}, "extensions must name at least one"),
        ({"extensions": [".jpg"]}, "what follows a name's first dot, such as 'jpg'; got '.jpg'"),
        ({"rank": 1}, "rank and world_size go together"),
    ],
)
def test_a_wrong_setting_fails_at_construction(scripted, setting, message):
    scripted(shards(1, 1, 1)[0])
    with pytest.raises(ConfigError, match=message):
        TarDataset.from_prefix("memory://scripted/", **setting)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a.tar", ["a.tar"]),
        ("s-{8..11}.tar", ["s-8.tar", "s-9.tar", "s-10.tar", "s-11.tar"]),
        ("s-{08..11}.tar", ["s-08.tar", "s-09.tar", "s-10.tar", "s-11.tar"]),
        ("{2..0}", ["2", "1", "0"]),
        ("{-1..1}", ["-1", "0", "1"]),
        ("{train,val}/{0..1}", ["train/0", "train/1", "val/0", "val/1"]),
        ("{a,b{1..2},}x", ["ax", "b1x", "b2x", "x"]),
        ("{literal}/{1..x}/{", ["{literal}/{1..x}/{"]),
        ("{{1..2}}", ["{1}", "{2}"]),
        ("}{1,2}", ["}1", "}2"]),
    ],
)
def test_braces_expand_as_in_a_shell(pattern, expected):
    assert expand_braces(pattern) == expected


def test_endless_patterns_are_refused():
    for pattern in ("{0..99999999999}", "{0..9999}{0..9999}"):
        with pytest.raises(ConfigError, match="stands for more than 10000000 names"):
            expand_braces(pattern)


@pytest.mark.parametrize(
    "names",
    [
        [f"{number:03}" for number in range(300)],  # none belongs to a sample
        ["0.first", *(f"0.{number:03}" for number in range(299))],  # all are of one
    ],
)
def test_each_header_is_read_about_once_however_many_ranges_a_sample_takes(scripted, monkeypatch, names):
    body = b"".join(entry(name.encode(), bytes(20_000)) for name in names) + bytes(1024)
    store = scripted({"0.tar": body})
    parsed = []
    monkeypatch.setattr(
        torchbucket.datasets.tar.scan,
        "parse_header",
        lambda block, **place: parsed.append(place["offset"]) or parse_header(block, **place),
    )
    dataset = TarDataset.from_prefix("memory://scripted/", transform=len, prefetch_bytes=MIB, allow_empty=True)
    assert list(dataset) == [len(names)] * names[0].startswith("0.")
    assert len(store.requests) > 40
    assert len(parsed) <= len(names) + len(store.requests)
