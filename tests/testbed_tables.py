"""Tables of a document that a test run makes: collected cell by cell, then compared with what the document says.

A table stands between two comments, and nobody edits it by hand:

    <!-- table of clients: made by the tests, see CONTRIBUTING.md -->
    ...
    <!-- end of the table of clients -->

A test module makes one `Table`, its tests `record` their cells, and its last test calls `settle`. Each cell is compared
with the document's as it is recorded, so that a run of some of the tests compares what it ran; `settle` compares the
whole, or writes it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

__all__ = ["Table", "TableDiffersError"]

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "testbed.md"


class TableDiffersError(AssertionError):
    """The document's table is not the one that the tests made, or has no place in it."""


class Table:
    """Collects the outcomes of one run.

    Args:
        name: in the document's comments.
        corner: what heads the first column.
        rows: first cell of each row, in the document's order.
        columns: heads of the other columns.
        document: where it belongs.
    """

    writes: ClassVar[bool] = False
    """Whether this run writes tables anew, so that cells may differ from the document's (`--write-tables`)."""

    def __init__(
        self, *, name: str, corner: str, rows: Sequence[str], columns: Sequence[str], document: Path = DOCUMENT
    ) -> None:
        if len(set(rows)) < len(rows) or len(set(columns)) < len(columns):
            raise ValueError(f"table of {name}: a row or a column is there twice")
        self._name = name
        self._corner = corner
        self._rows = tuple(rows)
        self._columns = tuple(columns)
        self._document = document
        self._cells: dict[tuple[str, str], tuple[str, str | None]] = {}

    def record(self, row: str, column: str, text: str, *, note: str | None = None) -> None:
        """Sets one cell, and compares it with the document's unless the run writes the table.

        Args:
            row: one of the rows.
            column: one of the columns.
            text: the cell's, one line.
            note: a sentence below the table; cells with equal notes share its number.

        Raises:
            TableDiffersError: the document says something else of this cell, or has no place for the table.
        """
        if row not in self._rows or column not in self._columns:
            raise ValueError(f"table of {self._name}: no cell {row!r}, {column!r}")
        self._cells[row, column] = (text, note)
        if self.writes:
            return
        said = self._said(row, column)
        if said != (text, note):
            raise TableDiffersError(
                f"{self._document.name} says {said} of {column!r} where {row!r}, and this run found {(text, note)}; "
                "run with --write-tables and review the difference"
            )

    def _said(self, row: str, column: str) -> tuple[str, str | None] | None:
        """The cell's text and note in the document; None where it has no such cell."""
        table, _, notes = self._place(self._document.read_text(encoding="utf-8")).group(2).strip().partition("\n\n")
        head, _, *lines = [_texts(line) for line in table.splitlines()] + [[], []]
        cells = {(line[0], column): text for line in lines if line for column, text in zip(head, line, strict=True)}
        text = cells.get((row, column))
        reference = re.fullmatch(r"(.*?) ?\((\d+)\)", text or "")
        if text is None:
            return None
        if reference is None:
            return text, None
        numbered = dict(re.findall(r"^(\d+)\. (.*?)\s*(?=^\d+\. |\Z)", notes, re.DOTALL | re.MULTILINE))
        return reference[1], " ".join(numbered.get(reference[2], "").split())

    def _place(self, document: str) -> re.Match[str]:
        """Where the table stands in a document: a match of the comment before it, the table, the comment after it."""
        name = re.escape(self._name)
        place = re.compile(rf"(<!-- table of {name}: [^\n]*-->\n)(.*?)(<!-- end of the table of {name} -->)", re.DOTALL)
        found = list(place.finditer(document))
        if len(found) != 1:
            raise TableDiffersError(
                f"{self._document.name} needs one pair of lines '<!-- table of {self._name}: ... -->' and "
                f"'<!-- end of the table of {self._name} -->'"
            )
        return found[0]

    def missing(self) -> list[tuple[str, str]]:
        """Returns the cells that no test has recorded."""
        return [(row, column) for row in self._rows for column in self._columns if (row, column) not in self._cells]

    def render(self) -> str:
        """Returns the table and its notes as Markdown. Every cell must have been recorded."""
        notes: list[str] = []
        lines = [_line([self._corner, *self._columns]), _line(["---"] * (1 + len(self._columns)))]
        for row in self._rows:
            texts = [row]
            for column in self._columns:
                text, note = self._cells[row, column]
                if note is not None:
                    if note not in notes:
                        notes.append(note)
                    text = f"{text} ({notes.index(note) + 1})".strip()
                texts.append(text)
            lines.append(_line(texts))
        numbered = [_note(number, note) for number, note in enumerate(notes, start=1)]
        return "\n".join([*lines, *(["", *numbered] if numbered else [])])

    def settle(self) -> None:
        """Compares the document's table with the collected one, or replaces it where the run writes tables.

        A run of some of the tests only (`-k`, one file) knows not all cells: the test that called this is skipped then,
        and nothing is written.

        Raises:
            TableDiffersError: it differs, or the document has no place for it.
        """
        if missing := self.missing():
            cells = len(self._rows) * len(self._columns)
            pytest.skip(f"{len(missing)} of {cells} cells were not run, so the table of {self._name} is not compared")
        before = self._document.read_text(encoding="utf-8")
        place = self._place(before)
        after = f"{before[: place.start(2)]}\n{self.render()}\n\n{before[place.end(2) :]}"
        if after == before:
            return
        if self.writes:
            self._document.write_text(after, encoding="utf-8")
            return
        raise TableDiffersError(
            f"{self._document.name} does not say what the run found; run with --write-tables and review the "
            "difference:\n" + "\n".join(_changes(before, after))
        )


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def _texts(line: str) -> list[str]:
    return [text.strip().replace("\\|", "|") for text in re.split(r"(?<!\\)\|", line)[1:-1]]


def _note(number: int, note: str) -> str:
    start = f"{number}. "
    return textwrap.fill(start + note, width=120, subsequent_indent=" " * len(start), break_on_hyphens=False)


def _changes(before: str, after: str) -> list[str]:
    """Returns the lines that only one of the two texts has."""
    old, new = before.splitlines(), after.splitlines()
    return [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]
