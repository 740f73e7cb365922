"""Shares, orders, epochs and states of the data set over tar shards."""

from __future__ import annotations

import json

import pytest
from tar_shards import fill, key_of, shard

from torchbucket import ArchiveError, ConfigError, IterableDataset, ObjectChangedError, TarDataset, merge_states
from torchbucket.listing import Manifest
from torchbucket.store import open_store

COUNTS = [3, 0, 7, 1, 5, 4, 6]


@pytest.fixture(scope="module")
def keys() -> list[str]:
    return fill("memory://epochs", COUNTS)


def dataset(**settings) -> TarDataset[str]:
    return TarDataset.from_prefix("memory://epochs/", transform=key_of, **settings)


def through_json(state):
    return json.loads(json.dumps(state))


def test_ranks_share_whole_shards_and_every_sample_comes_once(keys):
    shares = [list(dataset(rank=rank, world_size=3)) for rank in range(3)]
    assert sorted(key for share in shares for key in share) == keys
    assert [sorted({key[:2] for key in share}) for share in shares] == [["00", "03", "06"], ["04"], ["02", "05"]]
    assert list(dataset(rank=7, world_size=8)) == []


def test_the_shards_order_and_the_samples_order_depend_on_seed_and_epoch_alone(keys):
    plain = dataset()
    assert list(plain) == keys
    assert plain.epoch == 1
    shards = dataset(shuffle=True, seed=1)
    first, second = list(shards), list(shards)
    assert sorted(first) == sorted(second) == keys
    assert len({tuple(first), tuple(second), tuple(keys)}) == 3
    assert [key for key in first if key[:2] == "02"] == [key for key in keys if key[:2] == "02"]
    shards.set_epoch(0)
    assert list(shards) == first
    buffered = dataset(shuffle_buffer=5, seed=1)
    first, second = list(buffered), list(buffered)
    assert sorted(first) == sorted(second) == keys
    assert len({tuple(first), tuple(second), tuple(keys)}) == 3
    # A sample comes out at most a buffer's length early.
    assert all(keys.index(key) < place + 5 for place, key in enumerate(first))
    assert list(dataset(shuffle_buffer=5, seed=1)) == first
    assert list(dataset(shuffle_buffer=5, seed=2)) != first
    assert sorted(dataset(shuffle_buffer=1000)) == keys
    assert list(dataset(shuffle_buffer=1)) == keys


def test_a_shuffle_buffer_mixes_evenly():
    fill("memory://mixing", [64], largest=1)
    places = [[0] * 4 for _ in range(4)]
    for seed in range(100):
        order = [
            int(key[-3:])
            for key in TarDataset.from_prefix(
                "memory://mixing/", transform=lambda sample: sample.key, shuffle_buffer=64, seed=seed
            )
        ]
        for place, sample in enumerate(order):
            places[place // 16][sample // 16] += 1
    assert all(300 < count < 500 for row in places for count in row), places  # 400 expected, 17 the deviation


@pytest.mark.parametrize("settings", [{}, {"shuffle": True, "shuffle_buffer": 4}, {"fetch": "lazy"}])
def test_a_data_set_goes_on_in_the_epoch_that_was_left_and_then_with_the_next(keys, settings):
    whole = dataset(**settings)
    epochs = [list(whole) for _ in range(2)]
    for stop in range(len(keys) + 1):
        left = dataset(**settings)
        samples = iter(left)
        assert [next(samples) for _ in range(stop)] == epochs[0][:stop]
        resumed = dataset(**settings)
        resumed.load_state_dict(through_json(left.state_dict()))
        if stop < len(keys):
            assert list(resumed) == epochs[0][stop:]
        assert resumed.epoch == 1
        assert list(resumed) == epochs[1]


def test_a_state_taken_before_the_first_sample_is_the_beginning(keys):
    fresh, resumed = dataset(shuffle=True), dataset(shuffle=True)
    resumed.load_state_dict(fresh.state_dict())
    samples = iter(resumed)
    assert samples.state_dict()["shards"]["consumed"] == 0
    resumed.load_state_dict(samples.state_dict())
    assert list(resumed) == list(fresh)


def test_a_resumed_shuffle_buffer_is_read_again_by_its_samples_ranges_alone(scripted):
    names = [f"{number:03}" for number in range(40)]
    store = scripted({"a.tar": shard(names, [50_000] * 40)})

    def buffered():
        return TarDataset.from_prefix("memory://scripted/", transform=key_of, shuffle_buffer=6, seed=3)

    samples = iter(buffered())
    seen = [next(samples) for _ in range(20)]
    state = through_json(samples.state_dict())
    samples.close()
    assert len(state["buffer"]) == 5
    store.requests.clear()
    resumed = buffered()
    resumed.load_state_dict(state)
    rest = list(resumed)
    assert sorted(seen + rest) == names
    whole = sum(len(body) for body in store.bodies.values())
    assert sum(request.stop - request.start for request in store.requests) < whole * 0.55
    assert {request.version for request in store.requests} == {"1"}


def test_a_failed_transform_consumes_nothing(keys):
    failing = {"on": True}

    def transform(sample):
        if sample.key == "02-003" and failing["on"]:
            raise ValueError("not now")
        return sample.key

    for settings in ({}, {"shuffle_buffer": 4}):
        failing["on"] = True
        left = TarDataset.from_prefix("memory://epochs/", transform=transform, **settings)
        samples, seen = iter(left), []
        with pytest.raises(ValueError, match="not now"):
            seen.extend(samples)
            while True:
                seen.append(next(samples))
        failing["on"] = False
        whole = list(TarDataset.from_prefix("memory://epochs/", transform=transform, **settings))
        resumed = TarDataset.from_prefix("memory://epochs/", transform=transform, **settings)
        resumed.load_state_dict(left.state_dict())
        rest = list(resumed)
        assert rest == whole[len(whole) - len(rest) :]
        assert rest[0] == "02-003"


def test_merged_states_go_on_with_any_number_of_ranks_and_not_with_one_missing(keys):
    for stops in ([0, 0], [2, 9], [1, 1], [50, 50], [50, 0]):
        seen, states = [], []
        for rank, stop in enumerate(stops):
            part = dataset(rank=rank, world_size=2, shuffle=True, shuffle_buffer=3)
            samples = iter(part)
            seen += [key for _, key in zip(range(stop), samples, strict=False)]
            states.append(part.state_dict())
            samples.close()
        merged = through_json(merge_states({"ranks": states}))
        rest = []
        for rank in range(3):
            part = dataset(rank=rank, world_size=3, shuffle=True, shuffle_buffer=3)
            part.load_state_dict(merged)
            if stops != [50, 50]:
                rest += list(part)
                assert part.epoch == 1
        if stops == [50, 50]:
            assert part.epoch == 1
            assert merge_states([merged]) == merged
        assert sorted(seen + rest) == keys
    with pytest.raises(ConfigError, match="of rank 1 it got none"):
        merge_states(states[:1])


def test_a_state_of_others_is_refused(keys):
    state = dataset(rank=0, world_size=2).state_dict()
    samples = iter(dataset(rank=0, world_size=2))
    next(samples)
    of_reader = samples.state_dict()
    other = dataset(rank=1, world_size=2)
    other.load_state_dict(of_reader)
    with pytest.raises(ConfigError, match="this state is of rank 0 of 2"):
        iter(other)
    with pytest.raises(ConfigError, match="made with seed=0"):
        dataset(seed=1).load_state_dict(state)
    with pytest.raises(ConfigError, match="expected a state of a TarDataset"):
        dataset().load_state_dict(IterableDataset.from_prefix("memory://epochs/").state_dict())
    with pytest.raises(ConfigError, match="'torchbucket_tar_state'"):
        dataset().load_state_dict({})
    damaged = {
        "torchbucket_tar_state": 2,
        "shards": None,
        "rest": [[0, 5, 5]],
        "buffer": [[0, 0, None]],
        "versions": 3,
        "draws": -1,
    }
    for name, value in damaged.items():
        with pytest.raises(ConfigError, match=r"damaged|version 2|expected a state"):
            dataset().load_state_dict(of_reader | {name: value})
    with pytest.raises(ConfigError, match="3 batches since"):
        merge_states({"_steps_since_snapshot": 3, "state": of_reader})


def test_a_place_that_is_none_and_a_shard_overwritten_since_are_found_out(keys):
    fill("memory://changing", [6])

    def changing():
        return TarDataset.from_prefix("memory://changing/", transform=key_of)

    samples = iter(changing())
    next(samples)
    state = samples.state_dict()
    for rest in ([[0, 512, None]], [[0, 0, 700]]):
        for fetch in ("whole", "lazy"):
            wrong = TarDataset.from_prefix("memory://changing/", transform=key_of, fetch=fetch)
            wrong.load_state_dict(state | {"rest": rest})
            with pytest.raises(ArchiveError):
                list(wrong)
    store = open_store("memory://changing")
    store.write("00.tar", store.read("00.tar").data)
    resumed = changing()
    resumed.load_state_dict(state)
    with pytest.raises(ObjectChangedError):
        list(resumed)


def test_a_manifest_keeps_the_shards_as_they_were(tmp_path):
    fill("memory://listed", [2, 3])
    place = str(tmp_path / "shards.parquet")
    Manifest.from_prefix("memory://listed/", versions=True).write(place)
    store = open_store("memory://listed")
    store.write("02.tar", b"made since")

    def listed(**settings):
        return TarDataset.from_manifest(place, transform=key_of, **settings)

    assert list(listed(pin_versions=True)) == ["00-000", "00-001", "01-000", "01-001", "01-002"]
    store.write("01.tar", store.read("01.tar").data)
    assert len(list(listed())) == 5
    with pytest.raises(ObjectChangedError, match=r"memory://listed/01\.tar"):
        list(listed(pin_versions=True))
    with pytest.raises(ConfigError, match="from_objects knows no versions to pin"):
        TarDataset.from_objects("memory://listed/{00..01}.tar", pin_versions=True)
