"""What a section's numbers mean, in sentences: who won, by how much, how sure; and what a reader must know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from bucketbench.records import State
from bucketbench.report.runs import Run
from bucketbench.report.sections import Section
from bucketbench.scenarios.presentation import TableForm
from bucketbench.statistics import (
    MINIMUM_REPEATS,
    Comparison,
    Contest,
    FigureSet,
    RepeatedMark,
    Role,
    Status,
    Summary,
    Verdict,
)
from bucketbench.visible import visible

__all__ = [
    "Marked",
    "broken_rules",
    "heading",
    "notes",
    "plural",
    "ratio_text",
    "reasons_text",
    "shortened",
    "verdicts",
]

_LONG_RATIO = 1e6
_MOST_RATIO_DIGITS = 6
_MOST_NAMES = 20  # of those that broke a rule
_MOST_CHARACTERS = 400  # of a reason: a library's message may be a page long; the files have all of it


class Marked(Protocol):
    """Repeats taken together, of which some may have broken a rule of a valid measurement."""

    @property
    def marks(self) -> Sequence[RepeatedMark]:
        """The rules that they broke."""

    @property
    def repeats(self) -> int:
        """How many they are."""


def heading(run: Run) -> str:
    """In one sentence what ran, when and where."""
    clients = len({job.client for job in run.jobs})
    failed = sum(job.failure is not None for job in run.jobs)
    parts = [
        f"{run.scenario} scenario: {plural(len(run.jobs), 'job')} of {plural(clients, 'client')}, {failed} failed",
        f"run {visible(str(_shown(run.directory)))}",
    ]
    if run.label not in (None, run.disambiguator):
        parts.append(f"label {run.label}")
    if run.started_at is not None:
        parts.append(f"started {run.started_at}")
    if run.disambiguator is not None:
        parts.append(f"disambiguator {run.disambiguator}")
    if run.commit is not None:
        commit, *changed = run.commit.split("-", 1)
        parts.append(f"commit {'-'.join([commit[:12], *changed])}")
    parts.append(_host(run.host))
    return " ".join("; ".join(part for part in parts if part).split())


def _shown(directory: Path) -> Path:
    return directory.relative_to(Path.cwd()) if directory.is_relative_to(Path.cwd()) else directory


def _host(host: Mapping[str, Any]) -> str:
    cores, memory_mib = host.get("cpu_cores"), host.get("memory_mib")
    known = [
        f"{cores} cores of {host.get('cpu_model', 'an unknown CPU')}" if isinstance(cores, int) else "",
        f"{memory_mib / 1024:.1f} GiB memory" if isinstance(memory_mib, int) else "",
        str(host.get("instance_type") or ""),
    ]
    return ", ".join(part for part in known if part)


def verdicts(section: Section, figures: FigureSet) -> list[str]:
    """For each contest who won by what margin, and how sure that is; or why nobody did."""
    several = len({contest.style for contest in section.contests}) > 1
    return [
        (f"{contest.style or 'others'}: " if several else "") + _verdict(contest, figures)
        for contest in section.contests
    ]


def _verdict(contest: Contest, figures: FigureSet) -> str:
    if contest.verdict is Verdict.NO_CONTEST:
        return f"No winner: no contestant {_condition(contest, figures)}."
    first = contest.ranking[0].client
    if contest.margin is None:
        return f"No contest: {first} is the only contestant that {_condition(contest, figures)}{_doubted(contest)}."
    compared = figures.kinds[contest.figure].contest
    against = f"{ratio_text(contest.margin.ratio)} times the {compared} of {_against(contest.margin)}"
    if contest.rival not in (None, contest.margin):
        against += f", and {ratio_text(contest.rival.ratio)} times that of {_against(contest.rival)}"
    told = f"{first} won with {against}" if contest.verdict is Verdict.WON else f"Undecided: {first} had {against}"
    return f"{told}{_doubted(contest)}."


def _condition(contest: Contest, figures: FigureSet) -> str:
    """What it takes to take part, as far as any contestant lacks it."""
    lacking = []
    if any(entry.state is State.INVALID for entry in contest.excluded):
        lacking.append("valid figures")
    if any(entry.status is Status.OK and entry.state is not State.INVALID for entry in contest.excluded):
        lacking.append(f"a {figures.kinds[contest.figure].contest} above 0")
    return "succeeded in all its repeats" + f" with {' and '.join(lacking)}" * bool(lacking)


def ratio_text(ratio: float) -> str:
    """A ratio to hundredths; so near to 1 that these would be the same, with the first digit in which it differs."""
    if ratio >= _LONG_RATIO:
        return f"{ratio:.3g}"
    digits = 2
    while ratio != 1 and digits < _MOST_RATIO_DIGITS and float(f"{ratio:.{digits}f}") == 1:
        digits += 1
    return f"{ratio:.{digits}f}"


def _doubted(contest: Contest) -> str:
    """Which of those that the verdict is about have doubtful figures."""
    named = {contest.ranking[0].client}
    named |= {one.denominator for one in (contest.margin, contest.rival) if one is not None}
    doubtful = [entry.client for entry in contest.ranking if entry.client in named and entry.state is State.DOUBTFUL]
    return f"; the figures of {' and '.join(doubtful)} are doubtful" if doubtful else ""


def _against(comparison: Comparison) -> str:
    interval = comparison.interval
    if interval is None:
        more = f": sweep 'repeat=range({MINIMUM_REPEATS})'" if comparison.repeats < MINIMUM_REPEATS else ""
        return f"{comparison.denominator} (undecided, as {comparison.obstacle}{more})"
    how = f"{ratio_text(interval.low)} to {ratio_text(interval.high)}" + (
        "" if comparison.above else f", undecided since it {'is below' if interval.high < 1 else 'includes'} 1"
    )
    return (
        f"{comparison.denominator} ({how}; {interval.confidence:.1%} confidence, {comparison.repeats} paired repeats)"
    )


def notes(section: Section, form: TableForm) -> list[str]:
    """Which clients failed and why, and which figures are n/a and why."""
    lines = []
    for entry in section.entries:
        summary = entry.summary
        if summary.failures:
            reasons = "; ".join(dict.fromkeys(summary.failures))
            failed = f"{len(summary.failures)} of {plural(summary.repeats, 'repeat')} failed"
            lines.append(f"{summary.client}: {failed}: {shortened(reasons)}")
    for summary, figure in ((summary, contest.figure) for contest in section.contests for summary in contest.excluded):
        if summary.status is Status.PARTIAL:
            lines.append(f"{summary.client}: takes no part in the contest, since not all its repeats succeeded")
        elif summary.state is State.INVALID:
            lines.append(f"{summary.client}: takes no part in the contest, since its figures are invalid")
        elif summary.status is Status.OK:
            lines.append(f"{summary.client}: takes no part in the contest, since a repeat has no {figure} above 0")
    lines = [*broken_rules((entry.summary.client, entry.summary) for entry in section.entries), *dict.fromkeys(lines)]
    lines += _least(section, form)
    lines += _absent(section, form)
    if any(entry.summary.role is Role.CEILING for entry in section.entries) and all(
        entry.percent_of_ceiling.value is None for entry in section.entries
    ):
        lines.append(f"bare loop %: n/a: {section.entries[0].percent_of_ceiling.reason}")
    return lines


def broken_rules(found: Iterable[tuple[str, Marked]]) -> list[str]:
    """Which rules of a valid measurement were broken, by whom, and what was found.

    Args:
        found: repeats taken together, and what they are called.
    """
    broken: dict[tuple[State, str], list[tuple[str, Marked, RepeatedMark]]] = {}
    for name, one in found:
        for mark in one.marks:
            broken.setdefault((mark.state, mark.rule), []).append((name, one, mark))
    lines = []
    for (state, rule), marked in sorted(broken.items(), key=lambda item: item[0][0] is State.DOUBTFUL):
        names = [f"{name} ({mark.repeats}/{one.repeats})" for name, one, mark in marked]
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        first = marked[0][2]
        such = " such as" if len(names) > 1 or first.repeats > 1 else ""
        lines.append(f"{state} ({rule}): {', '.join(names[:_MOST_NAMES])}{more}:{such} {shortened(first.reason)}")
    return lines


def reasons_text(summary: Summary) -> str:
    """Why repeats of a client failed, or are doubtful or invalid; each reason once."""
    return shortened("; ".join(dict.fromkeys([*summary.failures, *(mark.reason for mark in summary.marks)])))


def _least(section: Section, form: TableForm) -> list[str]:
    """Who has what is asked for at least, where anything is."""
    if form.least is None:
        return []
    figure, parameter = form.least
    lines = []
    for summary in (entry.summary for entry in section.entries):
        least, median = summary.parameters.get(parameter), summary.figures[figure].median
        if least is None or summary.status is Status.FAILED:
            continue
        if median is None:
            lines.append(f"{summary.client}: {figure} n/a: {shortened(summary.figures[figure].reason or '')}")
        elif summary.state is State.INVALID:
            lines.append(
                f"{summary.client}: {figure} {median:.1f} is invalid: whether it meets the {least:g} of {parameter} is "
                "not known"
            )
        else:
            met = "meets" if median >= least else "does not meet"
            lines.append(f"{summary.client}: {figure} {median:.1f} {met} the {least:g} of {parameter}")
    return lines


def _absent(section: Section, form: TableForm) -> list[str]:
    clients: dict[tuple[str, str], list[str]] = {}
    for entry in section.entries:
        for name in (column.figure for column in form.columns if not column.optional):
            reason = entry.summary.figures[name].reason
            if entry.summary.status is not Status.FAILED and reason is not None:
                clients.setdefault((name, reason), []).append(entry.summary.client)
        if entry.summary.errors.reason is not None:
            clients.setdefault(("errors", entry.summary.errors.reason), []).append(entry.summary.client)
    return [f"{', '.join(names)}: {figure} n/a: {shortened(reason)}" for (figure, reason), names in clients.items()]


def plural(count: int, noun: str) -> str:
    """How many there are of what."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def shortened(text: str) -> str:
    """A reason in one line, the end of a very long one left out."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 3]}..."
