"""Rules of faults: what is refused and why, what a rule concerns, and which requests a plan strikes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

from buckettestbed.faults.plan import Fault, FaultPlan, FaultSet
from buckettestbed.faults.rules import FaultError, FaultRule
from buckettestbed.operations.names import LATE_ERRORS, LISTINGS, LISTINGS_BY_TOKEN, OPERATIONS, READS
from buckettestbed.presets import load_faults

PRESETS = sorted((Path(__file__).resolve().parents[3] / "conf" / "faults").glob("*.yaml"))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({}, ["kind is missing", "lost_response"]),
        ({"kind": "explode"}, ["kind is 'explode'", "reset"]),
        ({"kind": "reset", "chance": 1}, ["unknown field chance", "probability"]),
        (
            {"kind": "reset", "operations": ["get_objects"]},
            ["operations has 'get_objects'", "get_object", "compose_object"],
        ),
        ({"kind": "reset", "operations": "get_object"}, ["operations is 'get_object'", "a list"]),
        ({"kind": "reset", "methods": ["get"]}, ["methods has 'get'", "GET"]),
        ({"kind": "lost_response", "methods": ["GET"]}, ["methods has 'GET'", "lost_response cannot", "PUT"]),
        ({"kind": "skip_page", "operations": ["get_object"]}, ["skip_page cannot concern", "list_objects_v2"]),
        ({"kind": "reset", "dialect": "azure"}, ["dialect is 'azure'", "gcs"]),
        ({"kind": "error_after_200", "dialect": "gcs"}, ["dialect is 'gcs'", "error_after_200 cannot", "s3"]),
        ({"kind": "error_after_200", "status": 500}, ["status is 500", "would ignore", "code, message"]),
        ({"kind": "empty_page", "operations": ["list_objects_v1"]}, ["empty_page cannot concern", "list_objects_v2"]),
        ({"kind": "reset", "key": ""}, ["key is ''", "pattern"]),
        ({"kind": "reset", "bucket": 3}, ["bucket is 3", "pattern"]),
        ({"kind": "reset", "nth": 0}, ["nth is 0", "1 or more"]),
        ({"kind": "reset", "nth": True}, ["nth is True", "integer"]),
        ({"kind": "reset", "nth": 2, "probability": 0.5}, ["probability is 0.5", "nth 2"]),
        ({"kind": "reset", "every": 2, "probability": 0.5}, ["every is 2", "one of them"]),
        ({"kind": "reset", "probability": 1.5}, ["probability is 1.5", "from 0 to 1"]),
        ({"kind": "reset", "times": 0}, ["times is 0", "1 or more"]),
        ({"kind": "reset", "after": -1}, ["after is -1", "0 or more"]),
        ({"kind": "reset", "after": None}, ["after is None"]),
        ({"kind": "error"}, ["status is missing", "error needs it"]),
        ({"kind": "error", "status": 200}, ["status is 200", "from 400 to 599"]),
        ({"kind": "error", "status": 503, "code": "<Slow>"}, ["code is '<Slow>'"]),
        ({"kind": "error", "status": 503, "message": "a\r\nb"}, ["message is", "printable"]),
        ({"kind": "error", "status": 503, "retry_after_s": 0.5}, ["retry_after_s is 0.5", "integer"]),
        ({"kind": "reset", "status": 503}, ["status is 503", "reset would ignore", "after_bytes"]),
        ({"kind": "reset", "after_bytes": 1, "after_fraction": 0.5}, ["after_bytes is 1", "one of them"]),
        ({"kind": "truncate", "after_fraction": 1.0}, ["after_fraction is 1.0", "below 1"]),
        ({"kind": "delay"}, ["seconds is missing"]),
        ({"kind": "delay", "seconds": float("nan")}, ["seconds is nan"]),
        ({"kind": "delay", "seconds": "1"}, ["seconds is '1'", "number"]),
        ({"kind": "drip", "bytes_per_s": 0}, ["bytes_per_s is 0", "1 or more"]),
        ({"kind": "drip", "bytes_per_s": float("inf")}, ["bytes_per_s is inf"]),
        ("reset", ["a rule is str"]),
    ],
)
def test_a_wrong_rule_names_the_field_the_value_and_what_is_accepted(rule: object, words: list[str]) -> None:
    with pytest.raises(FaultError) as caught:
        FaultSet.from_value([{"kind": "reset"}, rule])
    for word in ["rule 2", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("errors_2pct", ["no faults preset is named 'errors_2pct'", "errors_1pct"]),
        ("[{kind: reset", ["given in line", "not YAML"]),
        ("{rule: []}", ["given in line", "unknown field rule", "seed and rules"]),
        ("/nowhere/faults.yaml", ["cannot read the faults", "/nowhere"]),
        ({"seed": 0.5}, ["seed is 0.5"]),
        ({"rules": "reset"}, ["rules is 'reset'", "a list"]),
        (3, ["faults are int"]),
    ],
)
def test_a_wrong_set_says_what_it_is(value: Any, words: list[str]) -> None:
    with pytest.raises(FaultError) as caught:
        load_faults(value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_presets_are_found_by_name_and_say_all_that_they_hold(path: Path) -> None:
    loaded = load_faults(path.stem)
    assert loaded == load_faults(str(path)) == load_faults(yaml.safe_load(path.read_text()))
    assert FaultSet.from_value(loaded.to_mapping()) == loaded
    assert bool(loaded.rules) == (path.stem != "none")


def test_the_presets_that_sweeps_name_are_there() -> None:
    assert {"none", "errors_1pct", "slow_tail", "resets", "throttling", "corruption", "flaky"} == {
        path.stem for path in PRESETS
    }


def draws(plan: FaultPlan, count: int, **changed: Any) -> list[int]:
    """Returns the numbers, from 1, of the requests that are struck."""
    return [number for number in range(1, count + 1) if draw(plan, **changed)]


def draw(plan: FaultPlan, **changed: Any) -> Fault | None:
    asked = {
        "dialect": "s3",
        "operation": "get_object",
        "method": "GET",
        "bucket": "data",
        "name": "train/a",
        **changed,
    }
    return plan.draw(**asked)


def plan(*rules: dict[str, Any], seed: int = 0) -> FaultPlan:
    return FaultPlan(FaultSet.from_value({"seed": seed, "rules": list(rules)}))


@pytest.mark.parametrize(
    ("when", "struck"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"nth": 3}, [3]),
        ({"nth": 3, "after": 2}, [5]),
        ({"every": 2}, [2, 4, 6]),
        ({"every": 2, "after": 1}, [3, 5]),
        ({"every": 2, "times": 2}, [2, 4]),
        ({"times": 2}, [1, 2]),
        ({"after": 4}, [5, 6]),
        ({"after": 3, "times": 1}, [4]),
        ({"probability": 0}, []),
        ({"probability": 1, "times": 3}, [1, 2, 3]),
    ],
)
def test_when_a_rule_strikes(when: dict[str, Any], struck: list[int]) -> None:
    assert draws(plan({"kind": "reset", **when}), 6) == struck


@pytest.mark.parametrize(
    ("which", "asked", "strikes"),
    [
        ({"operations": ["get_object"]}, {}, True),
        ({"operations": ["head_object"]}, {}, False),
        ({"methods": ["PUT", "GET"]}, {}, True),
        ({"methods": ["PUT"]}, {}, False),
        ({"dialect": "s3"}, {}, True),
        ({"dialect": "gcs"}, {}, False),
        ({"bucket": "d*"}, {}, True),
        ({"bucket": "d"}, {}, False),
        ({"key": "train/*"}, {"name": "train/deep/er"}, True),
        ({"key": "*/[ab]"}, {}, True),
        ({"key": "*/?"}, {"name": "train/ab"}, False),
        ({"key": "TRAIN/*"}, {}, False),
        ({"key": "a\n*"}, {"name": "a\nb"}, True),
        ({"key": "a.b"}, {"name": "axb"}, False),
    ],
)
def test_which_requests_a_rule_concerns(which: dict[str, Any], asked: dict[str, Any], strikes: bool) -> None:
    assert (draw(plan({"kind": "reset", **which}), **asked) is not None) == strikes


@pytest.mark.parametrize(
    ("kind", "fields", "concerned"),
    [
        ("corrupt", {}, READS),
        ("stale_listing", {"seconds": 1}, LISTINGS),
        ("repeat_page", {}, LISTINGS),
        ("skip_page", {}, LISTINGS),
        ("empty_page", {}, LISTINGS_BY_TOKEN),
        ("error_after_200", {}, LATE_ERRORS),
        ("delay", {"seconds": 1}, OPERATIONS),
    ],
)
def test_a_kind_concerns_only_what_it_can_strike(kind: str, fields: dict[str, Any], concerned: frozenset[str]) -> None:
    found = plan({"kind": kind, **fields})
    assert {name for name in OPERATIONS if draw(found, operation=name, continues=True)} == concerned


def test_lost_responses_concern_writes_and_repeated_pages_those_after_the_first() -> None:
    lost = plan({"kind": "lost_response"})
    assert [draw(lost, method=method) is not None for method in ("GET", "HEAD", "PUT", "POST", "DELETE")] == [
        False,
        False,
        True,
        True,
        True,
    ]
    repeated = plan({"kind": "repeat_page"})
    assert [draw(repeated, operation="list_objects_v2", continues=later) is not None for later in (False, True)] == [
        False,
        True,
    ]


def test_the_first_rule_that_is_due_strikes_and_each_counts_what_it_matches() -> None:
    found = plan(
        {"kind": "reset", "every": 2}, {"kind": "delay", "seconds": 1, "nth": 2}, {"kind": "truncate", "nth": 3}
    )
    kinds = [None if (fault := draw(found)) is None else fault.kind for _ in range(4)]
    assert kinds == [None, "reset", "truncate", "reset"]
    assert found.snapshot() == {
        "seed": 0,
        "rules": [
            {"kind": "reset", "every": 2, "matched": 4, "injected": 2},
            {"kind": "delay", "seconds": 1, "nth": 2, "matched": 4, "injected": 0},
            {"kind": "truncate", "nth": 3, "matched": 4, "injected": 1},
        ],
    }


REQUESTS = some.lists(
    some.fixed_dictionaries(
        {
            "operation": some.sampled_from(["get_object", "put_object"]),
            "method": some.sampled_from(["GET", "PUT"]),
            "name": some.sampled_from(["a", "b/c", "b/d"]),
        }
    ),
    max_size=60,
)
RULES = some.lists(
    some.fixed_dictionaries(
        {
            "kind": some.sampled_from(["reset", "truncate", "stall"]),
            "key": some.sampled_from(["*", "b/*"]),
            "probability": some.sampled_from([0.1, 0.5, 1]),
        }
    ),
    max_size=3,
)


@given(rules=RULES, requests=REQUESTS, seed=some.integers(0, 5))
def test_the_same_seed_and_requests_give_the_same_faults(
    rules: list[dict[str, Any]], requests: list[dict[str, Any]], seed: int
) -> None:
    first, second = plan(*rules, seed=seed), plan(*rules, seed=seed)
    assert [draw(first, **asked) for asked in requests] == [draw(second, **asked) for asked in requests]
    for shown in first.snapshot()["rules"]:  # type: ignore[attr-defined]  # A list, as `snapshot` documents.
        assert 0 <= shown["injected"] <= shown["matched"] <= len(requests)


@given(rules=RULES, requests=REQUESTS)
def test_one_more_rule_at_the_end_changes_no_others_strikes(
    rules: list[dict[str, Any]], requests: list[dict[str, Any]]
) -> None:
    shorter, longer = plan(*rules), plan(*rules, {"kind": "lost_response", "probability": 0.5})
    for asked in requests:
        before, now = draw(shorter, **asked), draw(longer, **asked)
        assert before is None or (now is not None and now.kind == before.kind)


def test_a_probability_is_met_and_another_seed_strikes_others() -> None:
    struck = [draws(plan({"kind": "reset", "probability": 0.01}, seed=seed), 20_000) for seed in (0, 1)]
    assert all(140 < len(numbers) < 260 for numbers in struck)  # 200 expected, standard deviation 14.
    assert struck[0] != struck[1]


@given(
    size_bytes=some.integers(0, 1000),
    rule=some.one_of(
        some.builds(lambda at: {"kind": "truncate", "after_bytes": at}, some.integers(0, 2000)),
        some.builds(lambda at: {"kind": "reset", "after_fraction": at}, some.floats(0, 0.999)),
        some.just({"kind": "corrupt"}),
    ),
    share=some.floats(0, 1, exclude_max=True),
)
def test_a_struck_body_is_never_whole(size_bytes: int, rule: dict[str, Any], share: float) -> None:
    place = Fault(rule=FaultRule.from_mapping(rule), share=share).place(size_bytes)
    assert 0 <= place < max(1, size_bytes)
    if rule.get("after_bytes", size_bytes) < size_bytes:
        assert place == rule["after_bytes"]
