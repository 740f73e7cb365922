"""How the subcommands write names, sizes and summaries, and say that there is nothing."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from torchbucket.errors import NotFoundError
from torchbucket.listing.columns import Listing
from torchbucket.listing.summary import Summary
from torchbucket.uri import ObjectURI

__all__ = ["check_found", "json_line", "shown", "size_text", "summary_text"]


def json_line(value: object) -> str:
    """One line of JSON, whose texts are escaped where the output's encoding may lack a character of them."""
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return json.dumps(value, ensure_ascii=not is_unicode) + "\n"


def check_found(listing: Listing, location: ObjectURI) -> None:
    """Raise ``NotFoundError`` where a prefix has no objects: with a wrong address, too, a listing just is empty."""
    if not listing:
        raise NotFoundError(
            f"list {location}: no object's name begins with it (a prefix is plain text; a directory's ends with '/')",
            operation="list",
            uri=str(location),
        )


def shown(name: str) -> str:
    """A name for a terminal: one that could move its cursor, or break the line, has escapes in place of that."""
    return name if name.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


def size_text(size_bytes: int) -> str:
    """A size in the largest unit that it has one of."""
    for unit, exponent in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size_bytes >= 1 << exponent:
            return f"{size_bytes / (1 << exponent):,.1f} {unit}"
    return f"{size_bytes} bytes"


def summary_text(summary: Summary, uri: str, *, in_json: bool) -> str:
    """A summary as lines for a person, or as one JSON document.

    Args:
        summary: the figures.
        uri: what they are of.
        in_json: write JSON.
    """
    if in_json:
        return json_line({"uri": uri, **asdict(summary)})
    lines = [f"{shown(uri)}: {summary.count:,} objects, {size_text(summary.total_bytes)}"]
    if summary.unknown_sizes:
        lines.append(f"{summary.unknown_sizes:,} of them have no known size")
    if summary.sizes:
        named = (
            ("smallest", summary.smallest_bytes),
            ("median", summary.median_bytes),
            ("largest", summary.largest_bytes),
        )
        lines.append(", ".join(f"{name} {size_text(size or 0)}" for name, size in named))
        lines += ["", f"{'size from':>14}  {'below':>14}  {'objects':>12}  together"]
        lines += [
            f"{size_text(found.start_bytes):>14}  {size_text(found.stop_bytes):>14}  {found.count:>12,}  "
            f"{size_text(found.total_bytes)}"
            for found in summary.sizes
        ]
    if summary.prefixes:
        lines += ["", f"{'objects':>12}  {'together':>16}  prefix"]
        lines += [
            f"{found.count:>12,}  {size_text(found.total_bytes):>16}  {shown(found.prefix) or '(no prefix)'}"
            for found in summary.prefixes
        ]
        if summary.more_prefixes:
            lines.append(f"and {summary.more_prefixes:,} more with fewer bytes")
    return "\n".join(lines) + "\n"
