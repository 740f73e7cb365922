"""A run arranged for readers: one section a parameter set, and in it one entry a client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bucketbench.records import Figure, State
from bucketbench.report.costs import figures_of
from bucketbench.report.runs import Run
from bucketbench.report.values import identity, texts_by_key
from bucketbench.scenarios import find_scenario
from bucketbench.statistics import Better, Contest, Role, Status, Summary, hold_contests, summarise
from bucketbench.statistics.network_limits import percent_of_bandwidth, percent_of_concurrency

__all__ = ["Entry", "Section", "arrange", "shared_by_all", "shared_parameters"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One client in a section.

    Args:
        summary: of its repeats.
        percent_of_ceiling: the figure that decides, in percent of the fastest bare loop's (``role: ceiling``).
        percent_of_network: likewise of what the network model lets through at most.
        percent_of_concurrency: likewise of what as many requests at once as the client has can carry there.
    """

    summary: Summary
    percent_of_ceiling: Figure
    percent_of_network: Figure
    percent_of_concurrency: Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """The clients that ran with one parameter set.

    Args:
        varying: the parameters by which the run's sections differ; empty where there is one section.
        told: their values as text, those of no two sections alike.
        entries: contestants first, the fastest on top and those with invalid figures below, then the references.
        contests: which contestant won, one contest a figure and style of data set; those of the figure that decides the
            order first, and of them that of the best contestant.
    """

    varying: Mapping[str, Any]
    told: Mapping[str, str]
    entries: Sequence[Entry]
    contests: Sequence[Contest]

    @property
    def title(self) -> str:
        """In what it differs from the other sections; empty where it is alone."""
        return " ".join(f"{name}={text}" for name, text in self.told.items())

    def won(self, entry: Entry) -> bool:
        """Whether the client won the contest of the figure that decides the order."""
        deciding = self.contests[0].figure
        return any(contest.winner is entry.summary for contest in self.contests if contest.figure == deciding)


def arrange(run: Run) -> list[Section]:
    """Arrange the results of a run of one scenario, its parameter sets in the order in which they ran.

    Raises:
        UsageError: this version knows no such scenario.
        IncomparableError: where jobs of the run cannot be put together.
    """
    groups: dict[str, list[Summary]] = {}
    known, carries = figures_of(run), find_scenario(run.scenario).table.carries
    for summary in summarise(run.jobs, units=known.units):
        groups.setdefault(identity(summary.parameters), []).append(summary)
    names = _varying(run)
    parameters = [summaries[0].parameters for summaries in groups.values()]
    varying = [{name: one[name] for name in names if name in one} for one in parameters]
    sections = []
    for summaries, own, told in zip(groups.values(), varying, texts_by_key(varying), strict=True):
        contested = _contested(summaries, known.contests)
        deciding = contested[0]
        better = known.kinds[deciding].better
        ceilings = [entry for entry in summaries if entry.role is Role.CEILING]
        ceiling = min(ceilings, key=lambda found: _place(found, deciding, better), default=None)
        entries = [
            Entry(
                summary=summary,
                percent_of_ceiling=_percent(summary, ceiling, deciding, better),
                percent_of_network=percent_of_bandwidth(summary, figure=deciding, direction=carries),
                percent_of_concurrency=percent_of_concurrency(summary, figure=deciding),
            )
            for summary in sorted(summaries, key=lambda found: _place(found, deciding, better))
        ]
        contests = [
            contest
            for name in contested
            for contest in hold_contests(summaries, figure=name, better=known.kinds[name].better)
        ]
        sections.append(Section(varying=own, told=told, entries=entries, contests=contests))
    return sections


def _contested(summaries: Sequence[Summary], figures: Sequence[str]) -> Sequence[str]:
    """The figures by which clients are compared that any of them has, since a job may measure some of them alone."""
    measured = [name for name in figures if any(one.figures[name].median is not None for one in summaries)]
    return measured or figures


def shared_parameters(run: Run) -> dict[str, Any]:
    """The parameters that have the same value in all jobs of a run, as far as a reader needs them.

    Those of a preset are left out where its name is there: ``network=regional`` says what ``network.first_byte_s`` is.
    """
    shared = shared_by_all(run)
    return {name: value for name, value in shared.items() if not _is_told_by(name.partition(".")[0], name, shared)}


def _is_told_by(group: str, name: str, parameters: Mapping[str, Any]) -> bool:
    return name != group and (group in parameters or (f"{group}.name", "none") in parameters.items())


def shared_by_all(run: Run) -> dict[str, Any]:
    """All parameters that have the same value in all jobs of a run."""
    first, *others = _parameter_sets(run)
    return {
        name: value
        for name, value in first.items()
        if all(name in other and identity(other[name]) == identity(value) for other in others)
    }


def _parameter_sets(run: Run) -> list[Mapping[str, Any]]:
    """Each set of parameters of the run once."""
    return list({identity(job.parameters): job.parameters for job in run.jobs}.values())


def _varying(run: Run) -> list[str]:
    """The parameters by which the run's sections differ, but those that a preset's name tells."""
    shared, sets = shared_by_all(run), _parameter_sets(run)
    names = dict.fromkeys(name for one in sets for name in one if name not in shared)
    return [name for name in names if not _is_told_by_preset(name, sets)]


def _is_told_by_preset(name: str, sets: Sequence[Mapping[str, Any]]) -> bool:
    group = name.partition(".")[0]
    if name == group or not all(group in one for one in sets):
        return False
    pairs = {(identity(one[group]), identity(one.get(name))) for one in sets}
    return len(pairs) == len({preset for preset, _ in pairs})


def _place(summary: Summary, figure: str, better: Better) -> tuple[bool, bool, bool, bool, float, str]:
    last = summary.status is Status.FAILED, summary.state is State.INVALID
    median = summary.figures[figure].median
    return not summary.role.competes, *last, *better.place(median), summary.client


def _percent(summary: Summary, ceiling: Summary | None, figure: str, better: Better) -> Figure:
    """How near a client comes to the bare loop, 100 for as good; it may be better than that."""
    if ceiling is None:
        return Figure(unit="%", reason="no bare loop (role: ceiling) was part of the run")
    if ceiling.state is State.INVALID:
        return Figure(unit="%", reason=f"the figures of the bare loop, {ceiling.client}, are invalid")
    own, best = summary.figures[figure].median, ceiling.figures[figure].median
    if not best:
        return Figure(unit="%", reason=f"the bare loop, {ceiling.client}, has no {figure}")
    if not own:
        return Figure(unit="%", reason=summary.figures[figure].reason or f"its {figure} is 0")
    return Figure(unit="%", value=100 * (best / own if better is Better.LOWER else own / best))
