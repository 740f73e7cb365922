"""docs/method.md states the limits that the code has, and every rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bucketbench.scenarios.dataset.schema import DatasetConfig
from bucketbench.scenarios.dataset.warming import WARMED_MEMORY_SHARE
from bucketbench.statistics import MINIMUM_REPEATS, least_operations
from bucketbench.statistics.warm_up import FASTER, MOST_PASSES, STABLE_PASSES
from bucketbench.validity import RULES, judge
from bucketbench.validity.caches import CACHED_SHARE
from bucketbench.validity.clock import CLOCK_JUMP_S
from bucketbench.validity.processors import OTHERS_SHARE, QUOTA_SHARE, STEAL_SHARE
from bucketbench.validity.testbed import LOST_SHARE, SERVER_SHARE
from buckettestbed.network.health import TOLERANCE

PAGE = (Path(__file__).parents[3] / "docs" / "method.md").read_text(encoding="utf-8")
PLAIN = " ".join(PAGE.split())


def row(rule: str) -> str:
    found = re.search(rf"^\| `{rule}` \|.*$", PAGE, flags=re.MULTILINE)
    assert found is not None, rule
    return found[0]


@pytest.mark.parametrize(
    ("rule", "limit"),
    [
        ("clock_jump", f"more than {CLOCK_JUMP_S:g} s against"),
        ("page_cache", f"more than {CACHED_SHARE:.0%} came".replace("%", " %")),
        ("network_model", f"invalid above {LOST_SHARE:.0%} of their time".replace("%", " %")),
        ("network_model", f"more than {TOLERANCE:.0%} off".replace("%", " %")),
        ("server_saturated", f"more than {SERVER_SHARE:.0%} of one processor".replace("%", " %")),
        ("steal", f"more than {STEAL_SHARE:.0%} of the processors".replace("%", " %")),
        ("cpu_quota", f"more than {QUOTA_SHARE:.0%} of its periods".replace("%", " %")),
        ("other_load", f"more than {OTHERS_SHARE:.0%} of the processors".replace("%", " %")),
        ("warm_up", f"the last of {MOST_PASSES} warm-up passes"),
    ],
)
def test_the_page_states_the_limit_of_each_rule(rule: str, limit: str) -> None:
    assert limit in row(rule)


def test_the_page_has_every_rule_and_no_other() -> None:
    section = PAGE.split("\n## Validity\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)) == RULES.keys()
    assert judge.__module__.startswith("bucketbench.validity")


def test_the_page_states_the_other_limits_of_the_code() -> None:
    numbers = ", ".join(
        f"the {name} from {least_operations(percent)}"
        for name, percent in (("median", 50), ("95th percentile", 95), ("99th", 99))
    )
    for statement in (
        f"{STABLE_PASSES} passes one after another were not more than {FASTER:.0%} faster".replace("%", " %"),
        f"and {MOST_PASSES} times at most",
        f"needs {MINIMUM_REPEATS} repeats",
        f"{2.0 ** (1 - MINIMUM_REPEATS):.1%} for {MINIMUM_REPEATS}".replace("%", " %"),
        numbers.replace("the median from 2, the 95th", "the median from 2, the 95th"),
        {0.5: "up to half of the memory"}[WARMED_MEMORY_SHARE],
    ):
        assert statement in PLAIN, statement


def test_the_page_states_what_the_share_that_is_compared_misses() -> None:
    share = DatasetConfig().verify_share
    assert f"`verify_share={share:g}`, one in eight" in PLAIN
    compared = round(2000 * share)
    assert f"2,000 samples of which {compared} are compared" in PLAIN
    for words, one_in in (("one delivery in 100", 100), ("one in 1,000", 1000), ("one in 10,000", 10_000)):
        missed = (1 - 1 / one_in) ** compared
        once, always = (
            f"{one:.0%}" if one > 0.01 else f"{one:.0e}".replace("e-0", "e-") for one in (missed, missed**6)
        )
        assert f"| {words} | {once} | {always} |".replace("%", " %") in PLAIN
    assert f"six repeats with {(1 - share) ** 6:.0%}".replace("%", " %") in PLAIN
