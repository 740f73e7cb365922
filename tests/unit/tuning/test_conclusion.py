"""What a search suggests and concludes, without a sweep."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from bucketbench.errors import ConfigurationError
from bucketbench.records import Figure, Mark, State
from bucketbench.results.job import JobResult
from bucketbench.statistics import RepeatedMark
from bucketbench.tuning.conclusion import Conclusion, Ratio
from bucketbench.tuning.measured import Measured
from bucketbench.tuning.options import SearchOptions
from bucketbench.tuning.space import Space, space_of
from bucketbench.tuning.suggestions import Suggestions
from bucketbench.validity import Validity


def space(written: list[str], given: list[str]) -> Space:
    parser = OverridesParser.create()
    return space_of(parser.parse_overrides(written), parser.parse_overrides(given), default_client="mine")


def measured(name: str, *speeds: float, memory_mib: float | None = 100.0) -> Measured:
    return Measured(setting=(f"k={name}",), speeds=dict(enumerate(speeds)), memory_mib=memory_mib)


def test_what_the_command_searches_counts_before_what_the_file_does() -> None:
    written = ["repeat=range(6)", "a=1,2", "b=3"]
    assert space(written, ["c=x"]).searched == {"a": ("a=1", "a=2")}
    found = space(written, ["c=x,y", "repeat=1,2"])
    assert found.searched == {"c": ("c=x", "c=y")}
    assert (found.fixed, found.repeats) == (("b=3",), ("repeat=1", "repeat=2"))
    with pytest.raises(ConfigurationError, match="nothing to search"):
        space(["repeat=range(6)"], ["a=1"])


def test_an_option_of_one_client_makes_settings_of_that_client_alone() -> None:
    found = space([], ["client=a.b,c", "+options_for.a.b.parts=1,2,3", "+options_for.c.size=8", "workers=0,2"])
    assert found.size == (3 + 1) * 2
    assert found.values == {"client": ["a.b", "c"], "+options_for.a.b.parts": ["1", "2", "3"], "workers": ["0", "2"]}
    both = [found.overrides(suggestion) for suggestion in ((0, 2, 0), (1, 2, 1))]
    assert both == [("client=a.b", "+options_for.a.b.parts=3", "workers=0"), ("client=c", "workers=2")]
    assert found.command(both[1]) == ("+options_for.c.size=8", "client=c", "workers=2")
    assert found.command(()) == ()  # the configuration's own client is neither
    assert found.point(both[0]) == ("client=a.b", "++client.options.parts=3", "workers=0")
    assert found.each_value()["+options_for.a.b.parts"][0] == ("client=a.b", "+options_for.a.b.parts=1")
    own = space([], ["+options_for.mine.parts=1,2"])
    assert own.size == 2
    assert own.each_value() == {key: [(f"{key}=1",), (f"{key}=2",)] for key in ("+options_for.mine.parts",)}
    with pytest.raises(ConfigurationError, match=r"options_for.d.parts is of a client that is not measured"):
        space([], ["client=a,c", "+options_for.d.parts=1,2"])


def test_suggestions_turn_to_what_is_good_and_within_the_limit() -> None:
    """A parabola with its top at 12; what is above 9 is over the limit of memory."""
    suggestions = Suggestions({"k": [str(value) for value in range(20)]}, seed=3)
    asked = []
    for _ in range(40):
        suggestion = suggestions.next()
        asked.append(suggestion[0])
        suggestions.tell(suggestion, 100.0 - (suggestion[0] - 12) ** 2, excess_mib=suggestion[0] - 9)
    late = asked[20:]
    assert set(asked) <= set(range(20))
    assert sum(5 <= value <= 9 for value in late) > 7  # of 20, of which chance has 5
    assert max(value for value in asked if value <= 9) == 9


def test_a_failed_suggestion_teaches_nothing_and_words_are_values_too() -> None:
    suggestions = Suggestions({"client": ["a", "b"]}, seed=0)
    suggestions.tell(suggestions.next(), None, excess_mib=0)
    assert {suggestions.next() for _ in range(12)} == {(0,), (1,)}


def test_an_undecided_choice_costs_at_most_what_the_interval_says() -> None:
    best, next_one = measured("a", 100, 102, 98, 101, 99, 100), measured("b", 99, 99.5, 99, 99, 100, 101)
    ratio = Ratio.of(best, next_one)
    assert not ratio.decided
    assert ratio.interval is not None
    conclusion = Conclusion(
        best=best,
        runner_up=next_one,
        reference=measured("r", 50, 51, 50, 49, 50, 51),
        trials={best.setting: 2.0, next_one.setting: 1.98, ("k=c",): 0.5, ("k=d",): None},
        over_limit=1,
        unit="MiB/s",
    )
    told = list(conclusion.lines())
    assert told[0] == "best: k=a: 100.0 MiB/s, 100 MiB of memory"
    assert f"costs at most {1 - ratio.interval.low:.0%}" in told[2]
    assert told[4] == (
        "of 4 settings tried within the limit, the one in the middle has 99% and the worst 25% of the fastest one's "
        "throughput"
    )
    assert told[5:] == ["1 more was over the limit of memory", "1 of them failed"]
    only = replace(conclusion, reference=next_one)  # the runner-up is the configuration as it stands: told once
    assert sum("the best has" in line for line in only.lines()) == 1
    assert conclusion.to_json()["best_over_reference"]["interval"][0] > 1.9


def test_what_drifts_with_time_cancels_in_the_ratios_of_repeats() -> None:
    slower = [1.0, 0.5, 0.25]
    one, other = measured("a", *(30 * part for part in slower)), measured("b", *(20 * part for part in slower))
    assert one.times(other) == pytest.approx(1.5)


def test_a_job_without_the_figure_is_a_failure_and_memory_that_is_unknown_fits_no_limit() -> None:
    figures = {"speed": Figure(unit="MiB/s", value=5.0), "memory": Figure(unit="MiB", value=None, reason="no /proc")}

    def job(status: str, reason: str | None = None) -> JobResult:
        return JobResult(
            schema_version=2, scenario="s", client="c", parameters={}, repeat=0, status=status, figures=figures,
            reason=reason,
        )  # fmt: skip

    mark = Mark(rule="steal", state=State.INVALID, reason="others had the machine")
    invalid = msgspec.structs.replace(job("ok"), validity=Validity(state=State.INVALID, marks=(mark,)))
    assert Measured.of((), {0: invalid}, figure="speed", memory_figure="memory").failure == f"invalid: {mark.reason}"
    some = Measured.of((), {0: job("ok"), 1: invalid}, figure="speed", memory_figure="memory")
    assert (some.speeds, some.failure) == ({0: 5.0}, None)
    jobs: dict[int, JobResult | str] = {0: job("ok"), 1: job("failed", "it broke"), 2: "lost"}
    found = Measured.of(("k=a",), jobs, figure="speed", memory_figure="memory")
    assert (found.speeds, found.failure, found.memory_mib) == ({0: 5.0}, "it broke", None)
    assert found.fits(None)
    assert not found.fits(1000)
    assert (some.repeats, [(mark.rule, mark.repeats) for mark in some.marks]) == (2, [("steal", 1)])


def test_what_broke_a_rule_is_told_with_the_reason() -> None:
    marks = (RepeatedMark(rule="other_load", state=State.DOUBTFUL, reason="the compiler ran", repeats=1),)
    invalid = (RepeatedMark(rule="steal", state=State.INVALID, reason="others had it", repeats=2),)
    best = replace(measured("a", 100, 102, 98, 101, 99, 100), repeats=8, marks=invalid)
    other = replace(measured("b", 50, 51, 50, 49, 50, 51), repeats=6, marks=marks)
    conclusion = Conclusion(
        best=best, runner_up=other, reference=other, trials={}, over_limit=0, unit="MiB/s",
        searched=[("k=c in round 1", replace(other, repeats=2))],
    )  # fmt: skip
    told = list(conclusion.lines())
    assert told[0] == "best: k=a: 100.0 MiB/s in 6 of 8 repeats, 100 MiB of memory"
    assert told[2].endswith("; the figures of k=b are doubtful")
    assert told[3:] == [
        "invalid (steal): k=a (2/8): such as others had it",
        "doubtful (other_load): k=b (1/6): the compiler ran",
        "in the search: doubtful (other_load): k=c in round 1 (1/2): the compiler ran",
    ]
    mark = {"rule": "other_load", "state": "doubtful", "reason": "the compiler ran", "repeats": 1}
    kept = conclusion.to_json()
    assert kept["best_over_runner_up"]["marks"] == [mark]
    assert kept["marks_in_search"] == [{"what": "k=c in round 1", "marks": [mark]}]


def test_settings_without_a_repeat_in_common_are_not_compared() -> None:
    one, other = measured("a", 100), Measured(setting=("k=b",), speeds={1: 90.0})
    ratio = Ratio.of(one, other)
    assert (ratio.times, ratio.decided) == (None, False)
    assert str(ratio) == "an unknown number of times (no repeat in which both have valid figures)"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"repeats": True}, "repeats=True"),
        ({"finalists": 1}, "number from 2"),
        ({"memory_limit": "2G"}, "'2G'"),
        ({"jobs_at_once": 0}, "jobs_at_once=0"),
        ({"finalist": 3}, "no option finalist: did you mean finalists?"),
    ],
)
def test_an_option_that_cannot_be_used_is_told(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        SearchOptions.of(options)
