"""The tables that tests make: what is written, what is compared, and what a partial run leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from testbed_tables import Table, TableDiffersError

PAGE = "# Page\n\n<!-- table of clients: made by tests -->\nold\n<!-- end of the table of clients -->\n\nrest\n"


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def table(document: Path) -> Table:
    return Table(name="clients", corner="behaviour", rows=["save", "copy"], columns=["a", "b"], document=document)


class WrittenTable(Table):
    """What `--write-tables` makes of every table."""

    writes = True


def filled(document: Path, kind: type[Table] = WrittenTable) -> Table:
    made = kind(name="clients", corner="behaviour", rows=["save", "copy"], columns=["a", "b"], document=document)
    made.record("save", "a", "yes")
    made.record("save", "b", "yes")
    made.record("copy", "a", "no call", note="a has none.")
    made.record("copy", "b", "other", note=f"b takes a | for a path, {'and says so at length, ' * 5}always.")
    return made


def test_a_complete_table_is_written_once_and_then_found_equal(document: Path) -> None:
    filled(document).settle()
    written = document.read_text()
    assert "| behaviour | a | b |\n| --- | --- | --- |\n| save | yes | yes |\n" in written
    assert "| copy | no call (1) | other (2) |\n\n1. a has none.\n2. b takes a | for a path, and " in written
    assert written.startswith("# Page\n") and written.endswith("\n\nrest\n")
    filled(document, Table).settle()
    filled(document).settle()
    assert document.read_text() == written


@pytest.mark.parametrize(
    ("row", "column", "text", "note"),
    [
        ("save", "a", "no", None),
        ("save", "b", "yes", "With a note."),
        ("copy", "a", "no call", None),
        ("copy", "a", "no call", "a has one."),
        ("copy", "b", "no call", "a has none."),
    ],
)
def test_a_cell_that_the_document_tells_otherwise_fails_where_it_is_recorded(
    document: Path, row: str, column: str, text: str, note: str | None
) -> None:
    filled(document).settle()
    with pytest.raises(TableDiffersError, match=rf"of '{column}' where '{row}'.*run with --write-tables"):
        table(document).record(row, column, text, note=note)


def test_a_cell_that_the_document_lacks_fails_where_it_is_recorded(document: Path) -> None:
    with pytest.raises(TableDiffersError, match=r"page\.md says None of 'a' where 'save'"):
        table(document).record("save", "a", "yes")
    assert document.read_text() == PAGE


def test_what_no_cell_tells_is_compared_with_the_whole_table(document: Path) -> None:
    filled(document).settle()
    document.write_text(document.read_text().replace("| behaviour |", "| what |").replace("2. b takes", "2.  b takes"))
    with pytest.raises(TableDiffersError, match=r"- \| what \|(?s:.)*\+ \| behaviour \|"):
        filled(document, Table).settle()


def test_equal_notes_share_a_number(document: Path) -> None:
    made = WrittenTable(name="clients", corner="", rows=["save", "copy"], columns=["a", "b"], document=document)
    for row in ("save", "copy"):
        for column in ("a", "b"):
            made.record(row, column, "", note="Same.")
    assert made.render().count("Same.") == 1
    assert made.render().count("(1)") == 4


def test_a_partial_run_writes_nothing(document: Path) -> None:
    made = WrittenTable(name="clients", corner="", rows=["save", "copy"], columns=["a", "b"], document=document)
    made.record("save", "a", "yes")
    with pytest.raises(pytest.skip.Exception, match="3 of 4 cells were not run"):
        made.settle()
    assert document.read_text() == PAGE


def test_a_document_without_the_comments_is_told_apart(document: Path) -> None:
    document.write_text("# Page\n")
    with pytest.raises(TableDiffersError, match="needs one pair of lines"):
        filled(document).settle()
    with pytest.raises(TableDiffersError, match="needs one pair of lines"):
        table(document).record("save", "a", "yes")
    assert document.read_text() == "# Page\n"


def test_a_cell_that_the_table_does_not_have(document: Path) -> None:
    with pytest.raises(ValueError, match="no cell 'move', 'a'"):
        table(document).record("move", "a", "yes")
    with pytest.raises(ValueError, match="twice"):
        Table(name="clients", corner="", rows=["save", "save"], columns=["a"], document=document)
