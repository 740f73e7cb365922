"""What a run was measured on and with, and how to run it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bucketbench.report.html.identity import client_digest, experiment_digest
from bucketbench.report.html.marks import MEASURED_WITH
from bucketbench.report.runs import Run, versions_of
from bucketbench.report.sections import Section, shared_by_all
from bucketbench.report.values import plain_text

__all__ = ["Provenance", "provenance"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """The card.

    Args:
        facts: name and value.
        command: what runs the sweep again; empty where the results do not have it.
        experiments: digest of each parameter set, and in what it differs from the others.
        clients: digest of each client's configuration, and its name.
        parameters: key and value, those that are the same in all jobs.
        versions: package and version; several where clients need different ones.
    """

    facts: tuple[tuple[str, str], ...]
    command: str
    experiments: tuple[tuple[str, str], ...]
    clients: tuple[tuple[str, str], ...]
    parameters: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]


def provenance(run: Run, sections: Sequence[Section]) -> Provenance:
    """The card of a run of one scenario."""
    first = {job.client: result for job, result in reversed(list(zip(run.jobs, run.results, strict=True)))}
    return Provenance(
        facts=tuple(_facts(run)),
        command="" if run.command is None else shlex.join(["bucketbench", "run", run.scenario, *run.command]),
        experiments=tuple(
            (experiment_digest(section.entries[0].summary.parameters), section.title) for section in sections
        ),
        clients=tuple((client_digest(result), client) for client, result in sorted(first.items())),
        parameters=tuple((name, plain_text(value)) for name, value in shared_by_all(run).items()),
        versions=tuple(versions_of(run.results).items()),
    )


def _facts(run: Run) -> Iterable[tuple[str, str]]:
    yield "run", run.name
    if run.label is not None:
        yield "label", run.label
    if run.disambiguator not in (None, run.label):
        yield "disambiguator", str(run.disambiguator)
    yield "started", run.started_at or "n/a: the results do not have it"
    yield "ended", run.ended_at or "n/a: the sweep was interrupted, or still runs"
    yield "commit", run.commit or "n/a: it was not run from a repository"
    if run.commit is not None and run.commit.endswith("-dirty"):
        yield "changed files", "yes: tracked files differed from the commit"
    for name, word in (
        ("system", "system"),
        ("kernel", "kernel"),
        ("machine", "architecture"),
        ("cpu_model", "CPU"),
        ("cpu_cores", "cores"),
        ("memory_mib", "memory, MiB"),
        ("instance_type", "instance type"),
        ("zone", "zone"),
        ("image_id", "image"),
    ):
        if run.host.get(name) is not None:
            yield word, plain_text(run.host[name])
    found = versions_of(run.results)
    yield "versions", ", ".join(f"{name} {found[name]}" for name in MEASURED_WITH if name in found) or "n/a"
    yield "compared", _compared(run)
    yield "cache", "; ".join(dict.fromkeys(_cache(result.cache) for result in run.results))


def _compared(run: Run) -> str:
    """What of all that the jobs delivered was held against what it should be."""
    told = [result.verification for result in run.results if result.verification is not None]
    if not told:
        return "n/a: no job's results have it"
    checked, by_size, in_warmup = (
        sum(int(one.get(name, 0)) for one in told) for name in ("checked", "checked_by_size", "checked_in_warmup")
    )
    whole = f"{checked - by_size:,} of {checked:,} whole"
    rest = f"; {by_size:,} by key and size" if by_size else ""
    return f"{whole}{rest}" + (f"; {in_warmup:,} more of warm-ups, whole" if in_warmup else "")


def _cache(cache: Mapping[str, str]) -> str:
    return f"{cache.get('state', 'unknown')}: {cache.get('how', 'the results do not tell how')}"
