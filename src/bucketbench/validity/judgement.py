"""A job judged by every rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from bucketbench.records import Mark, State
from bucketbench.validity.caches import page_cache
from bucketbench.validity.clock import clock_jump
from bucketbench.validity.contents import unverified
from bucketbench.validity.evidence import Evidence, NotJudgedError
from bucketbench.validity.paths import other_path
from bucketbench.validity.processors import cpu_quota, other_load, steal
from bucketbench.validity.testbed import network_model, server_saturated
from bucketbench.validity.warming import warm_up

__all__ = ["RULES", "Validity", "judge"]

Rule = Callable[[Evidence], tuple[State, str] | None]
"""What a job's evidence comes to: a state and the reason, or None. It raises where there is nothing to go by."""

RULES: Final[Mapping[str, Rule]] = {
    "clock_jump": clock_jump,
    "page_cache": page_cache,
    "other_path": other_path,
    "unverified": unverified,
    "network_model": network_model,
    "server_saturated": server_saturated,
    "steal": steal,
    "cpu_quota": cpu_quota,
    "other_load": other_load,
    "warm_up": warm_up,
}
"""Every rule by its name, which results have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Validity:
    """Whether a job measured what it says.

    Args:
        state: the worst of its marks.
        marks: the rules that it broke.
        unchecked: rules that could not be applied, and why.
    """

    state: State
    marks: tuple[Mark, ...] = ()
    unchecked: Mapping[str, str] = field(default_factory=dict)


def judge(evidence: Evidence) -> Validity:
    """Apply every rule."""
    marks: list[Mark] = []
    unchecked: dict[str, str] = {}
    for name, rule in RULES.items():
        try:
            found = rule(evidence)
        except NotJudgedError as error:
            unchecked[name] = str(error)
            continue
        if found is not None:
            marks.append(Mark(rule=name, state=found[0], reason=found[1]))
    return Validity(state=worst(marks), marks=tuple(marks), unchecked=unchecked)


def worst(marks: list[Mark]) -> State:
    """The worst state of any mark."""
    states = {mark.state for mark in marks}
    return next((state for state in (State.INVALID, State.DOUBTFUL) if state in states), State.VALID)
