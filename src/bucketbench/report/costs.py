"""What the work of a run's clients costs by a price list, as figures beside those that were measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import msgspec

from bucketbench.cost.bill import Usage, bill
from bucketbench.cost.prices import PriceList
from bucketbench.cost.pricing import Pricing
from bucketbench.errors import ConfigurationError
from bucketbench.records import Figure
from bucketbench.report.runs import Run
from bucketbench.results.job import JobResult
from bucketbench.scenarios import find_scenario
from bucketbench.scenarios.presentation import Column, Panel, TableForm
from bucketbench.statistics import Better, FigureKind, FigureSet, Traffic

__all__ = ["figures_of", "form_of", "priced", "prices_of"]

_TIMES: Final = 1000  # an epoch of a small data set costs less than a hundredth of a cent


def priced(run: Run, pricing: Pricing) -> Run:
    """The same run with a figure ``cost_per_<work>`` in every job, for each kind of work of its scenario.

    The figure has no value, and says why, where nothing counted the requests, or the list does not price all of them.
    """
    jobs, results = [], []
    for job, result in zip(run.jobs, run.results, strict=True):
        costs = _costs(result, pricing)
        jobs.append(replace(job, figures={**job.figures, **costs}))
        results.append(msgspec.structs.replace(result, figures={**result.figures, **costs}))
    return replace(run, jobs=tuple(jobs), results=tuple(results), pricing=pricing)


def form_of(run: Run) -> TableForm:
    """How a run of one scenario is shown: as its scenario says, with columns of costs where it is priced."""
    scenario = find_scenario(run.scenario)
    if run.pricing is None:
        return scenario.table
    currency, names = run.pricing.currency, _names(scenario.figures)
    found = [result.figures[name] for result in run.results for name in names.values()]
    if any(figure.value is not None for figure in found):
        words = " and ".join(f"{work}s" for work in names)
        told = (
            f"{currency}/{_TIMES} is what the requests and bytes of {_TIMES:,} {words} cost, as the testbed counted "
            f"them ({run.pricing.described(_schemes(run))})."
        )
    else:
        told = f"Costs are n/a: {'; '.join(dict.fromkeys(figure.reason or '' for figure in found))}."
    return replace(
        scenario.table,
        columns=(
            *scenario.table.columns,
            *(
                Column(heading=f"{work} {currency}/{_TIMES}", figure=name, scale=_TIMES, optional=True)
                for work, name in names.items()
            ),
        ),
        medians=(*scenario.table.medians, *names.values()),
        panels=(*scenario.table.panels, Panel(f"Cost, {currency} of {_TIMES:,}", tuple(names.values()))),
        legend=f"{scenario.table.legend} {told}",
    )


def figures_of(run: Run) -> FigureSet:
    """The figures of a run of one scenario, the costs among them where it is priced."""
    figures = find_scenario(run.scenario).figures
    if run.pricing is None:
        return figures
    kind = FigureKind(run.pricing.currency, Better.LOWER)
    return replace(figures, kinds={**figures.kinds, **dict.fromkeys(_names(figures).values(), kind)})


def prices_of(run: Run, pricing: Pricing) -> dict[str, Any]:
    """The prices of a run as plain JSON values."""
    lists = [one for scheme, one in pricing.lists.items() if scheme in _schemes(run)]
    return {
        "lists": [{"name": one.name, "as_of": one.as_of} for one in lists],
        "currency": pricing.currency,
        "route": pricing.route,
    }


def _names(figures: FigureSet) -> dict[str, str]:
    return {work: f"cost_per_{work}" for work in figures.work}


def _costs(result: JobResult, pricing: Pricing) -> dict[str, Figure]:
    prices = pricing.lists.get(_scheme(result))
    return {
        name: _cost(result.traffic.get(work), prices, pricing, result)
        for work, name in _names(find_scenario(result.scenario).figures).items()
    }


def _cost(traffic: Traffic | None, prices: PriceList | None, pricing: Pricing, result: JobResult) -> Figure:
    def absent(reason: str) -> Figure:
        return Figure(unit=pricing.currency, reason=reason)

    if traffic is None:
        other = "the job did no such work" if result.traffic else "the version that recorded the job did not count it"
        return absent(result.traffic_reason or other)
    if prices is None:
        return absent(f"none of the price lists is of {_scheme(result)}://")
    usage = Usage(
        requests={name: count / traffic.times for name, count in traffic.requests.items()},
        received_bytes=traffic.received_bytes / traffic.times,
        sent_bytes=traffic.sent_bytes / traffic.times,
    )
    try:
        return Figure(unit=pricing.currency, value=bill(usage, prices, route=pricing.route).total)
    except ConfigurationError as error:
        return absent(str(error))


def _scheme(result: JobResult) -> str:
    target = result.config.get("target")
    return str(target.get("scheme", "") if isinstance(target, dict) else "")


def _schemes(run: Run) -> list[str]:
    return list(dict.fromkeys(map(_scheme, run.results)))
