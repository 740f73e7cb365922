"""In which order the clients of a sweep's repeats run."""

from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from bucketbench.sweep.points import points_of


def order(seed: int | None, *overrides: str) -> list[tuple[str, ...]]:
    parsed = OverridesParser.create().parse_overrides(["client=a,b,c,d", *overrides])
    return list(points_of(parsed, default_clients=[], order_seed=seed).points)


def clients(points: list[tuple[str, ...]]) -> list[str]:
    names = [point[-1].removeprefix("client=") for point in points]
    return ["".join(names[start : start + 4]) for start in range(0, len(names), 4)]


def test_each_repeat_has_every_client_once_in_an_order_of_its_own() -> None:
    found = clients(order(0, "repeat=range(6)"))
    assert found[0] == "abcd", "the first in the order of their names"
    assert {"".join(sorted(block)) for block in found} == {"abcd"}
    assert len(set(found)) > 3
    assert found == clients(order(0, "repeat=range(6)")), "the same command, the same order"
    assert found != clients(order(1, "repeat=range(6)"))
    assert clients(order(None, "repeat=range(6)")) == ["abcd"] * 6


@pytest.mark.parametrize("swept", [["repeat=0,1", "x=1,2"], ["x=1,2"], []])
def test_the_points_are_those_of_the_plain_order_whatever_is_swept(swept: list[str]) -> None:
    plain, drawn = order(None, *swept), order(3, *swept)
    assert sorted(plain) == sorted(drawn)
    assert [point[:-1] for point in plain] == [point[:-1] for point in drawn], "repeats first, then the other keys"
