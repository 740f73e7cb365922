"""The clients of both sides of a comparison, each with one set of parameters, and which of them belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bucketbench.comparing.likeness import canonical, is_allowed
from bucketbench.comparing.selection import Side
from bucketbench.report.values import parameter_text
from bucketbench.results.job import JobResult
from bucketbench.scenarios import find_scenario
from bucketbench.statistics import IncomparableError, Summary, summarise

__all__ = ["Rows", "in_one_run_alone"]

_ABSENT: Final = "absent"


def in_one_run_alone(base: Side, candidate: Side, allowed: Sequence[str]) -> tuple[list[str], list[str]]:
    """What the first run has and nothing of the second is compared with, and the other way round.

    A client that the other run lacks is there by its name, one that was measured otherwise with what differs.

    Args:
        base: the first run.
        candidate: the second.
        allowed: as of ``changes_between``.
    """
    units = find_scenario(base.run.scenario).figures.units
    first, second = (Rows(side, units, allowed) for side in (base, candidate))
    pairs = first.paired_with(second)
    return first.left_over([one for one, _ in pairs], second), second.left_over([one for _, one in pairs], first)


class Rows:
    """The clients of one side, each with one set of parameters."""

    def __init__(self, side: Side, units: Mapping[str, str], allowed: Sequence[str]) -> None:
        self._side = side
        self._allowed = allowed
        self._all = summarise(side.run.jobs, units=units)
        self._results = {
            (job.client, canonical(job.parameters)): result
            for job, result in zip(side.run.jobs, side.run.results, strict=True)
        }
        self.rows = [row for row in self._all if side.client in (None, row.client)]

    def described(self, row: Summary, *, with_options: bool) -> dict[str, Any]:
        """What must be the same of two rows: the parameters, and how the client was set up."""
        options = self._result(row).client_options if with_options else {}
        every = {**row.parameters, **{f"client.{name}": value for name, value in options.items()}}
        return {name: value for name, value in every.items() if not is_allowed(name, self._allowed)}

    def paired_with(self, other: Rows) -> list[tuple[Summary, Summary]]:
        """Each row that has one with the same of the other side."""
        alone = None in (self._side.client, other._side.client)
        pairs = []
        for row in self.rows:
            wanted = self.described(row, with_options=alone)
            found = [
                one
                for one in other.rows
                if other.described(one, with_options=alone) == wanted
                and (not alone or other.own_name(one) == self.own_name(row))
            ]
            if len(found) > 1:
                raise IncomparableError(
                    f"{row.client} of {self._side.name} has several counterparts in {other._side.name} where "
                    f"{', '.join(self._allowed)} may differ; compare one of them as RUN@CLIENT, or allow less"
                )
            pairs += [(row, one) for one in found]
        return pairs

    def own_name(self, row: Summary) -> str:
        """The client's name without the options in which it differs from others of its run."""
        return self._result(row).client

    def _result(self, row: Summary) -> JobResult:
        return self._results[row.client, canonical(row.parameters)]

    def left_over(self, paired: Sequence[Summary], other: Rows) -> list[str]:
        """The rows without a counterpart, in words; none where the other side alone is a client that was named."""
        if self._side.client is None and other._side.client is not None:
            return []
        words = []
        for row in self.rows:
            if any(row is one for one in paired):
                continue
            nearest = self._nearest(row, other)
            own = {name: first for name, (first, _) in (nearest or {}).items() if first != _ABSENT}
            words.append(f"{self.own_name(row)} with {parameter_text(own)}" if own else row.client)
        return list(dict.fromkeys(words))

    def reference(self, client: str, row: Summary) -> Summary:
        """The client whose values a row's are divided by."""
        found = [one for one in self._all if one.client == client and one.parameters == row.parameters]
        if not found:
            raise IncomparableError(f"{self._side.name} has no client {client!r} with the parameters of {row.client}")
        return found[0]

    def _nearest(self, row: Summary, other: Rows) -> dict[str, tuple[Any, Any]] | None:
        """By which keys a row differs from the most similar one that it could be compared with; None without any."""
        alone = None in (self._side.client, other._side.client)
        own, best = self.described(row, with_options=alone), None
        for one in other.rows:
            if alone and other.own_name(one) != self.own_name(row):
                continue
            theirs = other.described(one, with_options=alone)
            differing = {
                name: (own.get(name, _ABSENT), theirs.get(name, _ABSENT))
                for name in sorted({*own, *theirs})
                if own.get(name, _ABSENT) != theirs.get(name, _ABSENT)
            }
            if best is None or len(differing) < len(best):
                best = differing
        return best

    def difference(self, other: Rows) -> str:
        """Why no row has a counterpart: the fewest keys by which any two rows of one client differ."""
        known = [found for row in self.rows if (found := self._nearest(row, other)) is not None]
        best = min(known, key=len, default=None)
        if best is None:
            names = [", ".join(dict.fromkeys(row.client for row in rows.rows)) for rows in (self, other)]
            return f"no client is in both runs: {self._side.name} has {names[0]}, {other._side.name} has {names[1]}"
        told = ", ".join(f"{name} is {first!r} and {second!r}" for name, (first, second) in best.items())
        return (
            f"{self._side.name} and {other._side.name} do not measure the same thing: {told}. --allow "
            f"{','.join(best)} compares them all the same"
        )
