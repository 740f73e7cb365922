"""Which operation a request asks for, out of a dialect's table of what it serves; whatever is not in it is unserved.

A table names what is served rather than what is not, because what it forgot would else fall through to another
operation: `PUT /new?versioning` would make a bucket, and a header that renames would write an empty object.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["UNKNOWN", "Routes", "Served", "Values", "taking"]

UNKNOWN = "unknown"
"""Name of an operation that a dialect does not serve."""

Values = Mapping[str, Collection[str] | None]
"""Names of parameters or headers, each with the values that it may have; None for any."""

Target = Literal["service", "bucket", "object"]


def taking(*names: str) -> dict[str, Collection[str] | None]:
    """Returns names that may have any value."""
    return dict.fromkeys(names)


@dataclass(frozen=True, kw_only=True)
class Served:
    """One operation, what makes a request one for it, and all that such a request may have besides.

    Args:
        name: of the operation, as the testbed counts it.
        method: of HTTP.
        target: what it is about.
        marks: query parameters that it must have, each with its value, None for any.
        mark_header: a header that it must have; empty for none.
        takes: query parameters that it may have.
        headers: headers, of those that a table checks, that it may have.
    """

    name: str
    method: str
    target: Target
    marks: Mapping[str, str | None] = field(default_factory=dict)
    mark_header: str = ""
    takes: Values = field(default_factory=dict)
    headers: Values = field(default_factory=dict)

    def is_marked(self, query: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        """Returns whether a request has what one for this operation must have."""
        return (not self.mark_header or self.mark_header in headers) and all(
            name in query and value in (None, query[name]) for name, value in self.marks.items()
        )


class Routes:
    """The operations of a dialect.

    Args:
        served: all of them. Where a request fits several, the one with most marks is meant.
        is_everywhere: tells a query parameter, in lower case, that any request may have: those of signatures.
        headers: headers, of those that are checked, that any request may have.
        metadata_prefix: what the names of user metadata begin with; operations take them all or ignore them all.
        checked: what the names of headers begin with that are refused where an operation does not take them.
        checked_in_writes: the same, of requests other than GET and HEAD.
    """

    def __init__(
        self,
        served: Sequence[Served],
        *,
        is_everywhere: Callable[[str], bool],
        headers: Values,
        metadata_prefix: str,
        checked: tuple[str, ...],
        checked_in_writes: tuple[str, ...],
    ) -> None:
        self._is_everywhere = is_everywhere
        self._headers = headers
        self._metadata_prefix = metadata_prefix
        self._checked = checked
        self._checked_in_writes = (*checked, *checked_in_writes)
        self._by_name = {found.name: found for found in served}
        self._by_place: dict[tuple[str, str], list[Served]] = defaultdict(list)
        for found in sorted(served, key=lambda found: (-len(found.marks), not found.mark_header)):
            self._by_place[found.method, found.target].append(found)

    @property
    def names(self) -> frozenset[str]:
        """Every name that `name` returns, save `unknown`."""
        return frozenset(self._by_name)

    def name(self, method: str, bucket: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
        """Returns the operation's name, or `unknown` for what the testbed does not serve."""
        target = "object" if key else "bucket" if bucket else "service"
        for found in self._by_place.get((method, target), ()):
            if found.is_marked(query, headers) and not (query and self._untaken(found, query)):
                return found.name
        return UNKNOWN

    def _untaken(self, served: Served, query: Mapping[str, str]) -> bool:
        """Returns whether a request has a parameter, or a value of one, that the operation does not take."""
        for name, value in query.items():
            if name in served.marks:
                continue
            if name in served.takes:
                if (values := served.takes[name]) is not None and value not in values:
                    return True
            elif not self._is_everywhere(name.lower()):
                return True
        return False

    def unserved_header(self, name: str, headers: Mapping[str, str]) -> str | None:
        """Returns a header that asks for what an operation does not do, or None.

        Args:
            name: of the operation, as `name` returned it.
            headers: of the request, names in lower case.
        """
        served = self._by_name[name]
        checked = self._checked if served.method in ("GET", "HEAD") else self._checked_in_writes
        for header, value in headers.items():
            if not header.startswith(checked) or header.startswith(self._metadata_prefix):
                continue
            if header in served.headers:
                values = served.headers[header]
            elif header in self._headers:
                values = self._headers[header]
            elif header == served.mark_header:
                continue
            else:
                return header
            if values is not None and value not in values:
                return header
        return None
