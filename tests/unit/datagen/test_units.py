"""Counts and sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketbench.units import format_bytes, parse_count, parse_resolution, parse_size

DECIMAL = {"kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100k", 100_000),
        ("100K", 100_000),
        ("1.5M", 1_500_000),
        ("64Ki", 65_536),
        ("0", 0),
        (" 7 ", 7),
        (12, 12),
    ],
)
def test_counts(text: str | int, expected: int) -> None:
    assert parse_count(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("128MiB", 128 << 20), ("1.5GiB", 3 << 29), ("500kB", 500_000), ("4096", 4096), ("10 B", 10), (99, 99)],
)
def test_sizes(text: str | int, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    "text", ["", "k", "-1", "1e3", "1.0005k", "1,000", "0x10", "100KiB", "inf", "१", "1 k k", True, 1.5, None, -3]
)
def test_what_is_no_count_is_refused_and_quoted(text: object) -> None:
    with pytest.raises(ValueError, match=r"expected|is not") as caught:
        parse_count(text)  # type: ignore[arg-type]  # wrong on purpose
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["", "MiB", "-1MiB", "1.1B", "3kiB", "3mb", "3MIB", True])
def test_what_is_no_size_is_refused_and_quoted(text: object) -> None:
    with pytest.raises(ValueError, match=r"expected|is not") as caught:
        parse_size(text)  # type: ignore[arg-type]  # wrong on purpose
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(("text", "readings"), [("128M", ("128MB", "128MiB")), ("3k", ("3kB", "3KiB"))])
def test_an_ambiguous_size_names_both_readings(text: str, readings: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="ambiguous") as caught:
        parse_size(text)
    for reading in readings:
        assert reading in str(caught.value)
        assert parse_size(reading) > 0


@given(st.integers(0, 10**6), st.sampled_from(sorted(DECIMAL | BINARY)), st.sampled_from(["", " "]))
def test_a_size_is_its_number_times_its_unit(number: int, unit: str, space: str) -> None:
    assert parse_size(f"{number}{space}{unit}") == number * (DECIMAL | BINARY)[unit]


@given(st.integers(0, 2**60))
def test_whole_numbers_pass_unchanged(number: int) -> None:
    assert parse_size(str(number)) == parse_size(number) == parse_count(str(number)) == number


@given(st.integers(0, 2**60))
def test_a_formatted_size_is_within_its_rounding(size_bytes: int) -> None:
    number, unit = format_bytes(size_bytes).split()
    factor = ({"B": 1, "PiB": 2**50} | BINARY)[unit]
    assert abs(float(number) * factor - size_bytes) <= 0.05 * factor + 1e-9 * size_bytes


def test_resolutions() -> None:
    assert parse_resolution("640x480") == (640, 480)
    assert parse_resolution(" 8 X 8 ") == (8, 8)
    for text in ("640", "0x10", "640x480x3", "-1x5", "1.5x2", ""):
        with pytest.raises(ValueError, match="WIDTHxHEIGHT"):
            parse_resolution(text)
