"""How a scenario's figures are shown: the columns of its table, and the words of its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bucketbench.records import OperationKind

__all__ = ["Column", "Panel", "Stream", "TableForm"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of the table.

    Args:
        heading: its words, the unit last.
        figure: name of the figure, whose median over the repeats stands in it.
        scale: what the value is multiplied by, where the column's unit is not the figure's.
        spread: whether the greatest distance of a repeat from the median stands beside it.
        optional: whether the column is left out, and nothing said, where no client has the figure.
    """

    heading: str
    figure: str
    scale: float = 1
    spread: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Figures that are drawn beside each other, one chart each.

    Args:
        title: what they have in common.
        figures: their names; one that no client has is left out.
    """

    title: str
    figures: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """Operations that are drawn one by one: how long each took, and what they brought in each second.

    Args:
        kind: which operations.
        title: what one of them is, such as *fetch of a batch*.
        amount: the field of an operation that counts.
        unit: of the rate.
        scale: what the field is multiplied by to be in that unit a second.
    """

    kind: OperationKind
    title: str
    amount: Literal["content_bytes", "samples"] = "content_bytes"
    unit: str = "MiB/s"
    scale: float = 1 / 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class TableForm:
    """How the jobs of a scenario are shown.

    Args:
        columns: the first is of the figure that decides; its percentages of the bare loop and of the network model's
            limit follow it.
        legend: what a reader of the table must know.
        counted: what a job counts, in the plural, for its progress.
        headline: figures shown as soon as a job is over.
        duration: the figure with the seconds that these took.
        medians: figures of the report's JSON, beside the one that decides.
        spreads: those of them that have their spread and interval there.
        details: columns of words: the heading, and the detail of the jobs that stands in it.
        least: a figure, and the parameter with the least value that is asked of it; None where nothing is.
        panels: the charts of a page, beside those of the figures by which clients are compared.
        streams: what is drawn over time there, and operation by operation.
        carries: which way the content of the figure that decides goes.
    """

    columns: tuple[Column, ...]
    legend: str
    counted: str
    headline: tuple[str, ...]
    duration: str
    medians: tuple[str, ...]
    spreads: tuple[str, ...]
    details: tuple[tuple[str, str], ...] = ()
    least: tuple[str, str] | None = None
    panels: tuple[Panel, ...] = ()
    streams: tuple[Stream, ...] = ()
    carries: Literal["download", "upload"] = "download"
