"""What the names of a checkpoint's files begin with."""

from __future__ import annotations

import pytest

from torchbucket import ConfigError
from torchbucket.dcp import BinaryPrefixes, HexPrefixes, RoundRobinPrefixes


def test_prefixes_spread_from_the_first_character() -> None:
    assert [BinaryPrefixes()(rank, 4) for rank in range(4)] == ["0000", "1000", "0100", "1100"]
    assert [HexPrefixes(count=3, min_length=1)(rank, 4) for rank in range(4)] == ["0", "1", "2", "0"]
    assert HexPrefixes(min_length=2)(16, 32) == "01"
    assert [RoundRobinPrefixes(["a", "b/"])(rank, 4) for rank in range(3)] == ["a", "b", "a"]
    for wrong in (lambda: BinaryPrefixes(count=0), lambda: HexPrefixes(min_length=0), lambda: RoundRobinPrefixes("ab")):
        with pytest.raises(ConfigError):
            wrong()
