"""Versions in few bytes: each form comes back as the server wrote it."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from torchbucket.listing import Listing, VersionColumn
from torchbucket.listing.blocks import Block

NUMBERS = st.integers(0, 10**18 - 1).map(str)
MD5S = st.binary(min_size=16, max_size=16).map(lambda digest: f'"{digest.hex()}"')
TEXTS = st.one_of(
    st.none(), NUMBERS, MD5S, st.sampled_from(["007", '"d41d-2"', '"D41D8CD98F00B204E9800998ECF8427E"', "é", "1e3"])
)
COLUMNS = st.one_of(st.lists(NUMBERS, max_size=8), st.lists(MD5S, max_size=8), st.lists(TEXTS, max_size=8))


@given(st.lists(COLUMNS.filter(bool), min_size=1, max_size=4))
def test_versions_are_kept_as_they_were_in_any_mixture(pages):
    blocks = [Block.of([f"{i}/{j}" for j in range(len(page))], [0] * len(page), page) for i, page in enumerate(pages)]
    listing = Listing.joined(blocks)
    wanted = [version for page in pages for version in page]
    for held in (listing, pickle.loads(pickle.dumps(listing))):
        assert [held.version(position) for position in range(len(held))] == wanted
        assert (held.versions is None) == (not any(wanted))


def test_a_generation_takes_8_bytes_and_a_digest_16():
    count = 1000
    generations = VersionColumn.of([str(1_700_000_000_000_000 + i) for i in range(count)])
    digests = VersionColumn.of([f'"{i:032x}"' for i in range(count)])
    assert generations is not None and generations.nbytes == 8 * count
    assert digests is not None and digests.nbytes == 16 * count
    mixed = VersionColumn.of([*(f'"{i:032x}"' for i in range(count)), '"d41d8cd98f00b204e9800998ecf8427e-2"'])
    assert mixed is not None and mixed.nbytes < 45 * count


def test_no_versions_take_nothing():
    assert VersionColumn.of([None, None]) is None
    assert VersionColumn.of([]) is None
    assert Listing.of_keys(["a", "b"]).version(1) is None
