"""What a browser would find in a page: its elements, attributes and text, by the standard library's parser."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

__all__ = ["PageStructure"]


class PageStructure(HTMLParser):
    """A parsed page.

    Attributes:
        elements: name and attributes of each, in order.
        outside: names of those outside charts.
        texts: of each ``script`` and ``style`` element, in order.
        text: all text that a reader sees.
    """

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.outside: list[str] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self._seen: list[str] = []
        self._open: list[str] = []
        self._charts = 0
        self.feed(page)
        self.close()

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._seen).split())

    @property
    def data(self) -> Any:
        """What the page tells its script."""
        return json.loads(self.texts["script"][0])

    def named(self, name: str) -> list[dict[str, str | None]]:
        """The attributes of each element of a name."""
        return [attributes for found, attributes in self.elements if found == name]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "svg":
            self._charts += 1
        if not self._charts:
            self.outside.append(tag)
        if tag in self.texts:
            self._open.append(tag)
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "svg":
            self._charts -= 1
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data
        else:
            self._seen.append(data)
