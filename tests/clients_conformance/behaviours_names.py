"""Names are bytes: what the client asks for is what the testbed has, and what it lists."""

from __future__ import annotations

from collections.abc import Sequence

from behaviour import behaviour
from client_shape import Bench

LIMIT_BYTES = 1024


def named(bench: Bench, names: Sequence[str]) -> None:
    """Each name is saved under just that name and loaded; all of them are listed."""
    for number, name in enumerate(names, start=1):
        body = name.encode()
        bench.client.save(name, body)
        assert bench.wire.names() == sorted(names[:number])
        assert bench.wire.get(name) == body
        assert bench.client.load(name) == body
    assert sorted(bench.client.listing("")) == sorted((name, len(name.encode())) for name in names)


@behaviour("names: spaces, `+`, `%2F`")
def escapes(bench: Bench) -> None:
    named(bench, ["a b", " lead", "end ", "a+b", "a%2Fb", "a%20b", "100%", "a%", "%zz", "a%252Fb"])


@behaviour("names: other signs")
def signs(bench: Bench) -> None:
    named(bench, ["a?b#c", "a&b=c;d", "<a>'\"", "a*b[0]{1}", "a:b@c!d$e,f", "~^`|\\", "-", "..a", "a.."])


@behaviour("names: Unicode")
def unicode(bench: Bench) -> None:
    # Composed and decomposed are two names; the last comes before the emoji by UTF-8, and after it by UTF-16.
    names = [
        "\u00e9",
        "e\u0301",
        "\u65e5\u672c\u8a9e/\u30d5\u30a1\u30a4\u30eb",
        "\U0001f600",
        "\u202eabc",
        "\u00a0",
        "\uffee",
    ]
    named(bench, names)


@behaviour("names: `//`")
def double_slash(bench: Bench) -> None:
    named(bench, ["a//b", "a///b"])


@behaviour("names: leading `/`")
def leading_slash(bench: Bench) -> None:
    named(bench, ["/a", "//a"])


@behaviour("names: `.` and `..` segments")
def dots(bench: Bench) -> None:
    named(bench, ["a/./b", "a/../b", "./a", "../a", "a/..", "a/."])


@behaviour("names: trailing `/`")
def trailing_slash(bench: Bench) -> None:
    named(bench, ["folder/", "folder/sub/", "a//"])


@behaviour("names: 1,024 bytes, and not one more")
def longest(bench: Bench) -> None:
    # One segment has at most 255 bytes here, so that a directory could hold it too.
    longest = ("n" * 199 + "/") * 5 + "n" * 22 + "\u00e9"
    assert len(longest.encode()) == LIMIT_BYTES
    named(bench, [longest])
    with bench.client.refusal("name"):
        bench.client.save(longest + "n", b"x")
    assert bench.wire.names() == [longest]
