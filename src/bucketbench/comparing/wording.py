"""A comparison as text, as Markdown for a pull request, and as JSON."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bucketbench.comparing.changes import Change, Effect
from bucketbench.comparing.rows import in_one_run_alone
from bucketbench.comparing.selection import Side
from bucketbench.report.markdown import escaped, table_line
from bucketbench.report.values import parameter_text

__all__ = ["as_json", "as_markdown", "as_text", "headline"]

_HEADINGS: Final = ("client", "figure", "before", "after", "ratio", "interval", "effect")
_DECIDED: Final = (Effect.BETTER, Effect.WORSE, Effect.DIFFERENT)
_GAP: Final = 2  # between two columns
_LEAST_NAME: Final = 16  # characters of a client, and of a figure
_WORDS: Final = ("client", "figure", "effect")
_STYLES: Final = {Effect.BETTER: "green", Effect.WORSE: "red"}


def headline(base: Side, candidate: Side, changes: Sequence[Change], *, allowed: Sequence[str] = ()) -> list[str]:
    """What is compared, what came of it, what a reader must know of either run, and which versions are other ones."""
    counts = {effect: sum(change.effect is effect for change in changes) for effect in Effect}
    told = ", ".join(f"{count} {effect}" for effect, count in counts.items() if count)
    return [
        f"{candidate.title} against {base.title}: {told or 'nothing to compare'}.",
        *(f"{side.name}: {note}" for side in (base, candidate) for note in side.run.notes),
        *_alone(base, candidate, allowed),
        *_machine(changes),
        *_versions(base, candidate),
    ]


def _alone(base: Side, candidate: Side, allowed: Sequence[str]) -> list[str]:
    """Of what nothing is said, since the other run lacks it."""
    both = zip((base, candidate), in_one_run_alone(base, candidate, allowed), strict=True)
    return [f"in {side.name} alone, and not compared: {', '.join(rows)}" for side, rows in both if rows]


def _machine(changes: Sequence[Change]) -> list[str]:
    """Which clients differ that show what the machine can do."""
    return [
        f"{one.client}, which shows what the machine and its network can do, has {one.ratio:.3f} times the "
        f"{one.figure} that it had ({one.interval.low:.3f} to {one.interval.high:.3f}): --relative-to {one.client} "
        "leaves out what made the whole run so"
        for one in changes
        if one.effect in _DECIDED and one.ratio is not None and one.interval is not None
        if not one.role.competes and one.relative_to is None
    ]


def as_text(changes: Sequence[Change], *, width: int) -> str:
    """A table for a terminal of so many characters, or a sentence a change where it is narrow; why what is n/a is."""
    rows = [_cells(change) for change in changes]
    numbers = [max(len(row[place]) for row in (_HEADINGS, *rows)) for place in range(2, len(_HEADINGS))]
    if sum(numbers) + _GAP * len(numbers) + 2 * _LEAST_NAME > width:
        text = "\n".join(_wrapped(_sentence(row), width) for row in rows)
    else:
        text = _table(changes, rows, width)
    return "\n".join([text, *(_wrapped(f"- {reason}", width) for reason in _reasons(changes))])


def _table(changes: Sequence[Change], rows: Sequence[Sequence[str]], width: int) -> str:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for place, name in enumerate(_HEADINGS):
        justify: Literal["left", "right"] = "left" if name in _WORDS else "right"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=place >= 2)
    for change, row in zip(changes, rows, strict=True):
        cells = [Text(text) for text in row]
        cells[-1].stylize(_STYLES.get(change.effect, ""))
        table.add_row(*cells)
    text = io.StringIO()
    Console(file=text, width=width, color_system=None, force_terminal=False).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def _sentence(row: Sequence[str]) -> str:
    client, figure, before, after, ratio, interval, effect = row
    return f"{client}, {figure}: {before} before, {after} after, ratio {ratio} ({interval}): {effect}"


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, subsequent_indent="  ", break_on_hyphens=False)


def as_markdown(base: Side, candidate: Side, changes: Sequence[Change], *, allowed: Sequence[str] = ()) -> str:
    """A table for a pull request; what is surely worse is in bold."""
    first, *others = (escaped(line) for line in headline(base, candidate, changes, allowed=allowed))
    lines = [first, "", *(f"- {line}" for line in others), *[""] * bool(others)]
    lines += [
        table_line(_HEADINGS),
        table_line([":--" if name in _WORDS else "--:" for name in _HEADINGS]),
    ]
    for change in changes:
        cells = [escaped(text) for text in _cells(change)]
        lines.append(table_line([f"**{cell}**" for cell in cells] if change.effect is Effect.WORSE else cells))
    reasons = _reasons(changes)
    return "\n".join([*lines, *[""] * bool(reasons), *(f"- {escaped(reason)}" for reason in reasons)])


def as_json(base: Side, candidate: Side, changes: Sequence[Change], *, allowed: Sequence[str] = ()) -> dict[str, Any]:
    """The comparison as plain JSON values."""
    return {
        "base": _as_json(base),
        "candidate": _as_json(candidate),
        "versions": _differing_versions(base, candidate),
        "in_one_run_alone": dict(zip(("base", "candidate"), in_one_run_alone(base, candidate, allowed), strict=True)),
        "changes": [asdict(change) for change in changes],
    }


def _as_json(side: Side) -> dict[str, Any]:
    run = side.run
    return {
        "name": side.name,
        "run": str(run.directory),
        "label": run.label,
        "commit": run.commit,
        "notes": list(run.notes),
    }


def _cells(change: Change) -> list[str]:
    client = change.client + (f" ({parameter_text(change.parameters)})" if change.parameters else "")
    interval = change.interval
    return [
        client,
        f"{change.figure} [{change.unit}]" if change.unit else change.figure,
        _number(change.base),
        _number(change.candidate),
        "n/a" if change.ratio is None else f"{change.ratio:.3f}",
        "n/a" if interval is None else f"{interval.low:.3f} to {interval.high:.3f}",
        str(change.effect),
    ]


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def _reasons(changes: Sequence[Change]) -> list[str]:
    reasons = [f"{one.client}, {one.figure}: {one.reason}" for one in changes if one.reason is not None]
    return list(dict.fromkeys([*reasons, *(f"{one.client}: {doubt}" for one in changes for doubt in one.doubts)]))


def _versions(base: Side, candidate: Side) -> list[str]:
    differing = _differing_versions(base, candidate)
    if not differing:
        return []
    return ["versions: " + ", ".join(f"{name} {before} → {after}" for name, (before, after) in differing.items())]


def _differing_versions(base: Side, candidate: Side) -> dict[str, tuple[str | None, str | None]]:
    found: list[dict[str, str | None]] = [
        {name: text for result in side.run.results for name, text in result.versions.items()}
        for side in (base, candidate)
    ]
    return {
        name: (found[0].get(name), found[1].get(name))
        for name in sorted(found[0].keys() & found[1].keys())
        if found[0][name] != found[1][name]
    }
