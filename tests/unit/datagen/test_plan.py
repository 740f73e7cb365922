"""What a spec accepts, and what its data set will consist of."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketbench.datagen import DatagenError, DatasetSpec
from bucketbench.datagen.members import label_of
from bucketbench.datagen.plan import planned_objects, planned_size_bytes


@pytest.mark.parametrize(
    "fields",
    [
        {"num_samples": 0},
        {"num_samples": True},
        {"num_samples": 1, "sample_size_bytes": 100},
        {"num_samples": 1, "size_distribution": "normal"},
        {"num_samples": 1, "image_format": "bmp"},
        {"num_samples": 1, "size_sigma": -1.0},
        {"num_samples": 1, "size_sigma": float("nan")},
        {"num_samples": 1, "size_spread": 1.0},
        {"num_samples": 1, "resolution": (1, 1)},
        {"num_samples": 1, "resolution": (100,)},
        {"num_samples": 1, "shard_size_bytes": 1},
        {"num_samples": 1, "samples_per_shard": 0},
        {"num_samples": 1, "extensions": ("cls", "cls")},
        {"num_samples": 1, "extensions": ("jpg",)},
        {"num_samples": 1, "seed": -1},
        {"num_samples": 1, "num_classes": 0},
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, object]) -> None:
    wrong = list(fields)[-1]
    with pytest.raises(DatagenError, match=f"{wrong} must be"):
        DatasetSpec(**fields)  # type: ignore[arg-type]  # wrong on purpose


def test_a_spec_survives_json() -> None:
    spec = DatasetSpec(
        num_samples=5, resolution=(32, 48), shard_size_bytes=1 << 20, size_distribution="uniform", seed=9
    )
    assert DatasetSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    with pytest.raises(DatagenError, match="unheard_of"):
        DatasetSpec.from_json({"num_samples": 1, "unheard_of": 2})


@pytest.mark.parametrize(
    ("fields", "spread"),
    [
        ({"size_distribution": "lognormal", "size_sigma": 0.5}, 0.53),  # sqrt(exp(0.25) - 1), of a lognormal
        ({"size_distribution": "uniform", "size_spread": 0.5}, 0.29),  # 0.5 / sqrt(3), of a uniform
    ],
)
def test_sizes_follow_their_distribution(fields: dict[str, object], spread: float) -> None:
    spec = DatasetSpec(num_samples=1, sample_size_bytes=100_000, **fields)  # type: ignore[arg-type]  # of one case
    sizes = [planned_size_bytes(spec, index) for index in range(4000)]
    assert statistics.mean(sizes) == pytest.approx(100_000, rel=0.03)
    assert statistics.stdev(sizes) / 100_000 == pytest.approx(spread, abs=0.05)
    assert spec.smallest_size_bytes <= min(sizes)
    assert max(sizes) <= spec.largest_size_bytes


@given(
    num_samples=st.integers(1, 300),
    shard_size_bytes=st.integers(64 << 10, 4 << 20),
    distribution=st.sampled_from(["constant", "lognormal", "uniform"]),
)
@settings(max_examples=examples(50))
def test_every_sample_is_in_one_shard_and_no_shard_is_too_large(
    num_samples: int, shard_size_bytes: int, distribution: str
) -> None:
    spec = DatasetSpec(
        num_samples=num_samples,
        sample_size_bytes=20_000,
        size_distribution=distribution,  # type: ignore[arg-type]  # sampled from the choices
        shard_size_bytes=shard_size_bytes,
    )
    shards = list(planned_objects(spec))
    assert [sample.index for shard in shards for sample in shard.samples] == list(range(num_samples))
    assert [shard.key for shard in shards] == sorted(f"shard-{number:06d}.tar" for number in range(len(shards)))
    for shard in shards:
        assert shard.size_bytes <= shard_size_bytes or len(shard.samples) == 1
        assert shard.size_bytes % 10240 == 0


def test_a_shard_ends_with_whichever_limit_it_reaches_first() -> None:
    spec = DatasetSpec(num_samples=25, sample_size_bytes=20_000, samples_per_shard=10, shard_size_bytes=1 << 30)
    assert [len(shard.samples) for shard in planned_objects(spec)] == [10, 10, 5]
    small = replace(spec, shard_size_bytes=100 << 10)
    assert [len(shard.samples) for shard in planned_objects(small)] == [4] * 6 + [1]


def test_labels_cover_the_classes_and_depend_on_the_seed() -> None:
    labels = [label_of(DatasetSpec(num_samples=1, num_classes=10), index) for index in range(300)]
    assert set(labels) == set(range(10))
    assert labels != [label_of(DatasetSpec(num_samples=1, num_classes=10, seed=1), index) for index in range(300)]
