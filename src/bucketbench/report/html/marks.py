"""What a reader must doubt: of single results, and where rows are put beside each other that are not comparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bucketbench.records import Mark as BrokenRule
from bucketbench.records import State
from bucketbench.report.runs import Run
from bucketbench.report.values import identity, texts_by_key
from bucketbench.report.wording import plural
from bucketbench.results.job import JobResult
from bucketbench.statistics import MINIMUM_REPEATS

__all__ = ["MEASURED_WITH", "Mark", "Marks", "differences", "marks_of"]

MEASURED_WITH: Final = ("python", "torch", "torchbucket")
"""Packages that every client is measured with, whatever else it needs."""

_MOST_VALUES: Final = 4  # of a key that differs; the provenance has all


@dataclass(frozen=True, slots=True)
class Mark:
    """A doubt about a row.

    Args:
        word: for the row itself.
        reason: what it means.
        is_rule: whether it is a rule of a valid measurement that was broken.
    """

    word: str
    reason: str
    is_rule: bool = False


Marks: TypeAlias = Mapping[str, Mapping[str, Sequence[Mark]]]
"""The marks of the clients of a run, by what identifies their parameters."""


def marks_of(run: Run) -> Marks:
    """The marks of each client with each set of parameters."""
    results: dict[str, dict[str, list[JobResult]]] = {}
    for job, result in zip(run.jobs, run.results, strict=True):
        results.setdefault(identity(job.parameters), {}).setdefault(job.client, []).append(result)
    return {key: {client: _marks(own) for client, own in found.items()} for key, found in results.items()}


def _marks(results: Sequence[JobResult]) -> list[Mark]:
    marks = _broken_rules(results)
    # Results of versions that judged nothing have the count alone.
    warned = [result for result in results if result.validity is None and _value(result, "server_warnings")]
    if warned:
        reason = (
            f"in {len(warned)} of {plural(len(results), 'repeat')} the testbed said that this host does not keep the "
            "network model, so that the figures are the host's rather than the network's"
        )
        marks.append(Mark("host is the limit", reason))
    faulted = sum(_value(result, "server_faults") for result in results)
    if faulted:
        marks.append(Mark("faults", f"{faulted:.0f} requests were struck by a fault, as the configuration asks for"))
    states = {result.cache.get("state") for result in results} - {None}
    if states == {"unknown"}:
        marks.append(Mark("cache unknown", next(iter(result.cache.get("how", "") for result in results))))
    left = [result.details["objects_left"] for result in results if "objects_left" in result.details]
    if left:
        marks.append(Mark("leaves objects", f"{', '.join(map(str, left))} objects more are in the bucket than before"))
    succeeded = sum(result.ok for result in results)
    if 0 < succeeded < MINIMUM_REPEATS:
        reason = f"{plural(succeeded, 'repeat')}: a statement at 95 % needs {MINIMUM_REPEATS}"
        marks.append(Mark(f"n = {succeeded}", reason))
    return marks


def _broken_rules(results: Sequence[JobResult]) -> list[Mark]:
    broken: dict[tuple[State, str], list[BrokenRule]] = {}
    for result in results:
        for mark in () if result.validity is None else result.validity.marks:
            broken.setdefault((mark.state, mark.rule), []).append(mark)
    told = []
    for (state, rule), found in broken.items():
        reason = f"in {len(found)} of {plural(len(results), 'repeat')}, such as: {found[0].reason}"
        told.append(Mark(f"{state}: {rule.replace('_', ' ')}", reason, is_rule=True))
    return sorted(told, key=lambda mark: not mark.word.startswith(State.INVALID))


def _value(result: JobResult, name: str) -> float:
    figure = result.figures.get(name)
    return 0.0 if figure is None else figure.value or 0.0


def differences(results: Sequence[JobResult]) -> list[str]:
    """In what the jobs differ that a comparison takes for the same: the machine, the commit, the cache, versions.

    Two clients may need two versions of one package, each in an environment of its own; two jobs of one client may not.
    """
    found = [
        *_differing("machine", [result.host for result in results]),
        *_differing("commit", [{"": result.commit} for result in results]),
        *_differing("cache", [{"": result.cache.get("state")} for result in results]),
        *_differing("version", [{name: result.versions.get(name) for name in MEASURED_WITH} for result in results]),
    ]
    for client in dict.fromkeys(result.client for result in results):
        own = [result.versions for result in results if result.client == client]
        told = [{name: one[name] for name in one if name not in MEASURED_WITH} for one in own]
        found += _differing(f"{client}: version", told)
    return found


def _differing(title: str, told: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each name whose value differs between those that tell it."""
    lines = []
    texts = texts_by_key([{name: value for name, value in one.items() if value is not None} for one in told])
    for name in dict.fromkeys(name for values in told for name in values):
        values = list(dict.fromkeys(one[name] for one in texts if name in one))
        if len(values) > 1:
            more = "" if len(values) <= _MOST_VALUES else f" and {len(values) - _MOST_VALUES} more"
            lines.append(f"{title}{f' ({name})' if name else ''}: {', '.join(values[:_MOST_VALUES])}{more}")
    return lines
