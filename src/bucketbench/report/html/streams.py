"""The charts that are drawn from raw records: how long operations took, and what happened in each second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bucketbench.report.cells import number_text
from bucketbench.report.html.by_client import Strip, strips
from bucketbench.report.html.encodings import SEPARATOR
from bucketbench.report.html.figures import Chart, Group, label_of, tone_of
from bucketbench.report.html.over_time import Line, time_lines
from bucketbench.report.html.raw_records import JobRecords
from bucketbench.report.html.svg import render_svg
from bucketbench.report.sections import Entry, Section
from bucketbench.report.wording import plural
from bucketbench.scenarios.presentation import Stream, TableForm
from bucketbench.statistics import MIB, least_operations, percentile, percentile_figure
from bucketbench.statistics.timeline import Segment, in_segments_of

__all__ = ["stream_groups"]

_FEW: Final = 40  # operations of a client that are drawn one by one


def stream_groups(section: Section, records: Sequence[JobRecords], form: TableForm) -> list[Group]:
    """Durations, throughput over time and memory over time; empty where no records are there.

    Args:
        section: whose clients are drawn.
        records: of the section's jobs.
        form: names the operations.
    """
    by_client: dict[str, list[JobRecords]] = {}
    for one in records:
        by_client.setdefault(one.client, []).append(one)
    entries = [entry for entry in section.entries if entry.summary.client in by_client]
    if not entries:
        return []
    durations = [_durations(section, entries, by_client, stream, place) for place, stream in enumerate(form.streams)]
    rates = [_rates(section, entries, by_client, stream, place) for place, stream in enumerate(form.streams)]
    memory = _memory(section, entries, by_client)
    found = [
        Group(title="How long each operation took", charts=tuple(chart for chart in durations if chart is not None)),
        Group(title="Over time", charts=tuple(chart for chart in (*rates, memory) if chart is not None)),
    ]
    return [group for group in found if group.charts]


def _durations(
    section: Section, entries: Sequence[Entry], by_client: dict[str, list[JobRecords]], stream: Stream, place: int
) -> Chart | None:
    rows = []
    for entry in entries:
        label = label_of(section, entry)
        milliseconds = sorted(
            value for records in by_client[entry.summary.client] for value in records.streams[place].durations_ms
        )
        if milliseconds:
            rows.append(_strip(label, milliseconds, section, entry))
    if not rows:
        return None
    return Chart(
        title=f"{stream.title}, ms",
        hint="less is better; all repeats together: each operation where they are few, else 5th to 95th percentile, "
        "quartiles, median and, as a cross, the slowest",
        svg=render_svg(strips(rows, unit="ms")),
    )


def _strip(label: str, milliseconds: Sequence[float], section: Section, entry: Entry) -> Strip:
    p5, p25, p50, p75, p95 = (percentile(milliseconds, percent) for percent in (5, 25, 50, 75, 95))
    count = len(milliseconds)
    told = ", ".join(f"p{percent} {_percentile_text(milliseconds, percent)}" for percent in (50, 95, 99))
    return Strip(
        label=label,
        tone=tone_of(section, entry),
        values=list(milliseconds) if count <= _FEW else (),
        p5=p5,
        p25=p25,
        p50=p50,
        p75=p75,
        p95=p95,
        largest=max(milliseconds),
        says=f"{label}{SEPARATOR}{plural(count, 'operation')}: {told}, slowest {number_text(max(milliseconds))} ms",
    )


def _percentile_text(values: Sequence[float], percent: float) -> str:
    found = percentile_figure(values, percent)
    return f"n/a (of fewer than {least_operations(percent)})" if isinstance(found, str) else number_text(found)


def _rates(
    section: Section, entries: Sequence[Entry], by_client: dict[str, list[JobRecords]], stream: Stream, place: int
) -> Chart | None:
    lines = []
    segment_s = max(records.segment_s for entry in entries for records in by_client[entry.summary.client])
    for entry in entries:
        label = label_of(section, entry)
        for records in by_client[entry.summary.client]:
            segments = in_segments_of(segment_s, records.streams[place].segments)
            if not segments:
                continue
            rates = [one.rate for one in segments]
            says = (
                f"{label}{SEPARATOR}repeat {records.repeat}: {plural(len(rates), 'segment')} of {segment_s:.0f} s, "
                f"{number_text(min(rates))} to {number_text(max(rates))} {stream.unit}"
            )
            lines.append(Line(label=label, tone=tone_of(section, entry), points=_steps(segments, segment_s), says=says))
    if not lines:
        return None
    return Chart(
        title=f"{stream.title}: {stream.unit} over time",
        hint=f"a line a repeat, in segments of {segment_s:.0f} s of which only measured time counts",
        svg=render_svg(time_lines(lines, unit=stream.unit)),
    )


def _steps(segments: Sequence[Segment], segment_s: float) -> list[tuple[float, float | None]]:
    """The line of a rate that is the same throughout each segment, interrupted where nothing was measured."""
    points: list[tuple[float, float | None]] = []
    for segment in segments:
        if points and points[-1][0] < segment.start_s:
            points.append((points[-1][0], None))
        points += [(segment.start_s, segment.rate), (segment.start_s + segment_s, segment.rate)]
    return points


def _memory(section: Section, entries: Sequence[Entry], by_client: dict[str, list[JobRecords]]) -> Chart | None:
    lines = []
    for entry in entries:
        label = label_of(section, entry)
        for records in by_client[entry.summary.client]:
            if not records.memory:
                continue
            points = [(one.start_s, one.memory_bytes / MIB) for one in records.memory]
            most = max(value for _, value in points)
            says = f"{label}{SEPARATOR}repeat {records.repeat}: up to {number_text(most)} MiB"
            lines.append(Line(label=label, tone=tone_of(section, entry), points=points, says=says))
    if not lines:
        return None
    return Chart(
        title="memory, MiB",
        hint="a line a repeat: memory of the measured process and its workers, torch included",
        svg=render_svg(time_lines(lines, unit="MiB")),
    )
