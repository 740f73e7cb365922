"""Text that a terminal, a table and a page show as it is, whoever wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["in_one_line", "visible", "visible_in"]

# Control characters but the tab and the newline, those that end a line elsewhere, and those that turn the direction of
# writing. Sources: ECMA-48 (C0 and C1), ECMA-262 (line terminators), Unicode Standard Annex 9 (explicit formatting).
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """``text`` with characters that are commands rather than text written as Python's literals write them.

    A name or a server's message could otherwise colour, move or clear what a terminal shows.
    """
    return _UNSEEN.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def in_one_line(text: str) -> str:
    """``text`` with tabs and ends of lines written as Python's literals write them: a name could pass for a table."""
    return text.replace("\n", "\\n").replace("\t", "\\t")


def visible_in(content: Any) -> Any:
    """A JSON value with all of its texts, names and values, as ``visible`` has them."""
    if isinstance(content, str):
        return visible(content)
    if isinstance(content, Mapping):
        return {visible_in(name): visible_in(value) for name, value in content.items()}
    return [visible_in(item) for item in content] if isinstance(content, list) else content
