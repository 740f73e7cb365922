"""The order of an epoch: a seeded permutation that is computed where it is needed and held nowhere."""

from __future__ import annotations

import hashlib
import math
from typing import Final

import numpy as np
import numpy.typing as npt

from torchbucket.errors import ConfigError

__all__ = ["EpochOrder", "Positions", "check_epoch", "check_seed", "check_shuffle"]

Positions = npt.NDArray[np.int64]

_ROUNDS: Final = 8
_SMALL_COUNT: Final = 1024
_ROUNDS_OF_SMALL: Final = 24  # few values a round mix slowly: with 8 some orders of 5 objects came a tenth too often
_U64: Final = np.uint64


class EpochOrder:
    """Says which object comes at each place of an epoch: the listing's order, or one that the seed and epoch decide.

    The order is the same in every process, on every platform and with every version of numpy, since it is plain
    arithmetic on 64-bit numbers. It takes no memory, however many objects there are, so eight workers hold nothing
    eight times.

    *Source:* a generalised Feistel cipher over ``[0, a) x [0, b)`` with cycle walking (Black and Rogaway, "Ciphers with
    Arbitrary Finite Domains", CT-RSA 2002), eight rounds of splitmix64's finaliser (Steele, Lea and Flood, "Fast
    Splittable Pseudorandom Number Generators", OOPSLA 2014), keyed by SHAKE-256 of seed and epoch; 24 rounds for up to
    1,024 objects. Not for secrets.

    Args:
        count: how many objects there are.
        shuffle: permute; otherwise the order is the identity, whatever seed and epoch are.
        seed: any whole number.
        epoch: the epoch's number, from 0.

    Raises:
        ConfigError: the seed is not a whole number, or the epoch not one from 0 on.
    """

    __slots__ = ("_columns", "_count", "_keys", "_rows")

    def __init__(self, count: int, *, shuffle: bool, seed: int, epoch: int) -> None:
        check_seed(seed)
        check_epoch(epoch)
        self._count = count
        self._keys: tuple[np.uint64, ...] = ()
        if shuffle and count > 1:
            # An even number of rows makes odd permutations possible as well as even ones.
            self._rows = 2 * math.ceil((math.isqrt(count - 1) + 1) / 2)
            self._columns = math.ceil(count / self._rows)
            rounds = _ROUNDS if count > _SMALL_COUNT else _ROUNDS_OF_SMALL
            stream = hashlib.shake_256(f"torchbucket order 1 {seed} {epoch}".encode()).digest(8 * rounds)
            self._keys = tuple(_U64(key) for key in np.frombuffer(stream, "<u8"))

    def __len__(self) -> int:
        return self._count

    def positions(self, places: Positions) -> Positions:
        """The objects' positions in the listing, for places in the epoch from 0 up to the count; of the same shape."""
        if not self._keys:
            return places
        found = self._permuted(places.astype(_U64))
        while (outside := found >= self._count).any():
            found[outside] = self._permuted(found[outside])
        return found.astype(np.int64)

    def _permuted(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        rows, columns = _U64(self._rows), _U64(self._columns)
        row, column = values // columns, values % columns
        for key, next_key in zip(self._keys[::2], self._keys[1::2], strict=True):
            row = (row + _mixed(column, key) % rows) % rows
            column = (column + _mixed(row, next_key) % columns) % columns
        mixed: npt.NDArray[np.uint64] = row * columns + column
        return mixed


def check_seed(seed: object) -> None:
    """Raise ``ConfigError`` unless ``seed`` is a whole number."""
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise ConfigError(f"seed must be a whole number; got {seed!r}")


def check_shuffle(shuffle: object) -> None:
    """Raise ``ConfigError`` unless ``shuffle`` is True or False."""
    if not isinstance(shuffle, bool):
        raise ConfigError(f"shuffle must be True or False; got {shuffle!r}")


def check_epoch(epoch: object) -> None:
    """Raise ``ConfigError`` unless ``epoch`` is a whole number from 0 that 63 bits hold."""
    if not isinstance(epoch, int) or isinstance(epoch, bool) or not 0 <= epoch < 1 << 63:
        raise ConfigError(f"an epoch must be a whole number from 0; got {epoch!r}")


def _mixed(values: npt.NDArray[np.uint64], key: np.uint64) -> npt.NDArray[np.uint64]:
    """splitmix64's finaliser of ``values + key``; whole numbers wrap around at 64 bits."""
    mixed = values + key
    mixed ^= mixed >> _U64(30)
    mixed *= _U64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> _U64(27)
    mixed *= _U64(0x94D049BB133111EB)
    mixed ^= mixed >> _U64(31)
    return mixed
