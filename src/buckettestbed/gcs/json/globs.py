"""`matchGlob`: patterns over object names. *Source*: Cloud Storage documentation, list objects, filter by glob."""

import re

from buckettestbed.gcs.json.errors import JsonError

__all__ = ["compile_glob"]

_LIMIT_CHARACTERS = 1024
"""*Source*: ours; a name has no more."""


def compile_glob(glob: str) -> re.Pattern[str]:
    """Returns the pattern that a whole name must match.

    `*` is any text without `/`, `**` any text, and `**/` where a segment begins any number of segments, so that
    `**/name` matches `name` too; `?` is one character but `/`, `[abc]` and `[a-z]` one of these, `[!abc]` or `[^abc]`
    none of them, `{a,b}` either; a backslash takes the next character literally.

    Raises:
        JsonError: 400, it is malformed.
    """
    parts: list[str] = []
    at, fresh = 0, True
    braces: list[bool] = []  # For each open one, whether a segment begins with it.
    while at < len(glob):
        character, begins = glob[at], fresh
        at += 1
        fresh = character == "/"
        if character == "*":
            stars = at - 1
            while at < len(glob) and glob[at] == "*":
                at += 1
            if at - stars == 1:
                parts.append("[^/]*")
            elif begins and glob[at : at + 1] == "/":
                parts.append("(?:.*/)?")
                at, fresh = at + 1, True
            else:
                parts.append(".*")
        elif character == "?":
            parts.append("[^/]")
        elif character == "[":
            text, at = _class(glob, at)
            parts.append(text)
        elif character == "{":
            fresh = begins
            braces.append(begins)
            parts.append("(?:")
        elif character == "}" and braces:
            braces.pop()
            parts.append(")")
        elif character == "," and braces:
            fresh = braces[-1]
            parts.append("|")
        elif character == "\\" and at < len(glob):
            parts.append(re.escape(glob[at]))
            at += 1
        else:
            parts.append(re.escape(character))
    if braces or len(glob) > _LIMIT_CHARACTERS:
        raise _malformed(glob)
    return re.compile("".join(parts), re.DOTALL)


def _class(glob: str, at: int) -> tuple[str, int]:
    """Returns the expression of a bracket's content, which begins at `at`, and where what follows it begins."""
    end = glob.find("]", at + 1)
    if end < 0:
        raise _malformed(glob)
    content = glob[at:end]
    negated = content[0] in "!^"
    members = content[1:] if negated else content
    if not members:
        raise _malformed(glob)
    ranges: list[str] = []
    index = 0
    while index < len(members):
        if members[index + 1 : index + 2] == "-" and index + 2 < len(members):
            first, last = members[index], members[index + 2]
            if first > last:
                raise _malformed(glob)
            ranges.append(f"{re.escape(first)}-{re.escape(last)}")
            index += 3
        else:
            ranges.append(re.escape(members[index]))
            index += 1
    return f"[{'^/' if negated else ''}{''.join(ranges)}]", end + 1


def _malformed(glob: str) -> JsonError:
    return JsonError(400, f"Invalid glob {glob[:80]!r}.", reason="invalidParameter", parameter="matchGlob")
