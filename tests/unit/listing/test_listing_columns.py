"""Columns of names and sizes: what goes in comes out, in little memory."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchbucket import ConfigError
from torchbucket.listing import KeyColumn, Listing

KEYS = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), max_size=30)


@given(prefix=st.text(st.characters(codec="utf-8"), max_size=8), rest=KEYS, data=st.data())
def test_names_and_sizes_are_kept_byte_for_byte(prefix, rest, data):
    keys = [prefix + key for key in rest]
    sizes = [data.draw(st.one_of(st.none(), st.integers(0, 1 << 60))) for _ in keys]
    listing = Listing.collect(zip(keys, sizes, strict=True))
    for held in (listing, pickle.loads(pickle.dumps(listing))):
        assert len(held) == len(held.keys) == len(keys)
        assert list(held.keys) == keys == held.keys[:]
        assert [held.keys[position] for position in range(len(keys))] == keys
        assert [held.size_bytes(position) for position in range(len(keys))] == sizes
        assert held.keys == keys
        assert held.keys[::-2] == keys[::-2]


@given(KEYS)
def test_keys_alone_share_what_they_begin_with(keys):
    listing = Listing.of_keys(keys)
    assert list(listing.keys) == keys
    assert all(listing.size_bytes(position) is None for position in range(len(keys)))


def test_a_column_reads_like_a_tuple():
    keys = Listing.of_keys(["a/1", "a/2", "a/3"]).keys
    assert keys[-1] == "a/3"
    assert "a/2" in keys
    assert keys.index("a/3") == 2
    assert keys != ["a/1", "a/2"]
    assert keys != "a/1"
    assert repr(keys) == "KeyColumn(['a/1', 'a/2', 'a/3'], 3 keys)"
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"index {index} is out of range for 3 keys"):
            keys[index]


def test_an_object_takes_less_than_100_bytes_also_when_pickled():
    count = 20_000
    prefix = "x" * 200 + "/"
    listing = Listing.collect((f"{prefix}class-{i % 1000:04}/{i:012}.jpg", i) for i in range(count))
    assert listing.nbytes / count < 50
    assert len(pickle.dumps(listing)) / count < 50
    assert len(pickle.dumps(Listing.of_keys([f"{prefix}{i:012}" for i in range(count)]))) / count < 50


def test_columns_of_different_length_are_refused():
    keys = KeyColumn([b""], [0], b"ab", np.array([0, 1, 2]))
    with pytest.raises(ValueError, match="2 keys, 1 sizes"):
        Listing(keys, np.array([1]))


def test_a_name_that_is_no_text_is_named():
    with pytest.raises(ConfigError, match=r"the key 'b.ud800' is not valid"):
        Listing.of_keys(["a", "b\ud800", "c"])
