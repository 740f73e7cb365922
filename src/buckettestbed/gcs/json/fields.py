"""Partial responses: the `fields` parameter. *Source*: Cloud Storage documentation, JSON API, partial responses."""

from collections.abc import Mapping

from buckettestbed.gcs.json.errors import JsonError

__all__ = ["Fields", "below", "parse_fields", "select"]

Fields = Mapping[str, "Fields | None"]
"""Names to keep, each with what to keep below it; None for everything."""


def below(fields: Fields | None, name: str) -> Fields | None:
    """Returns what is selected below a name; None for everything, also where the name itself is not selected."""
    return None if fields is None or "*" in fields else fields.get(name)


def parse_fields(text: str) -> Fields:
    """Returns what `a,b/c,items(name,size)` selects; raises JsonError (400) where it is malformed."""
    selected, end = _parse(text, 0)
    if end != len(text):
        raise _malformed(text)
    return selected


def _malformed(text: str) -> JsonError:
    return JsonError(400, f"Invalid field selection {text}", reason="invalidParameter", parameter="fields")


def _parse(text: str, at: int) -> tuple[dict[str, Fields | None], int]:
    """Reads a list of selections up to its end, a closing parenthesis or the text's."""
    selected: dict[str, Fields | None] = {}
    while True:
        path, at = _path(text, at)
        inner: Fields | None = None
        if at < len(text) and text[at] == "(":
            inner, at = _parse(text, at + 1)
            if at == len(text):
                raise _malformed(text)
            at += 1
        for name in reversed(path[1:]):
            inner = {name: inner}
        _merge(selected, path[0], inner)
        if at == len(text) or text[at] != ",":
            if at < len(text) and text[at] != ")":
                raise _malformed(text)
            return selected, at
        at += 1


def _path(text: str, at: int) -> tuple[list[str], int]:
    end = at
    while end < len(text) and text[end] not in ",()":
        end += 1
    path = [name.strip() for name in text[at:end].split("/")]
    if not all(path):
        raise _malformed(text)
    return path, end


def _merge(selected: dict[str, Fields | None], name: str, inner: Fields | None) -> None:
    if name not in selected:
        selected[name] = inner
        return
    before = selected[name]
    if before is None or inner is None:
        selected[name] = None
        return
    merged = dict(before)
    for deeper, selection in inner.items():
        _merge(merged, deeper, selection)
    selected[name] = merged


def select(value: object, fields: Fields | None) -> object:
    """Returns the parts of a JSON value that are selected; of a list, of each of its elements."""
    if fields is None:
        return value
    if isinstance(value, list):
        return [select(element, fields) for element in value]
    if not isinstance(value, dict):
        return value
    if "*" in fields:
        return {name: select(inner, fields.get(name, fields["*"])) for name, inner in value.items()}
    return {name: select(inner, fields[name]) for name, inner in value.items() if name in fields}
