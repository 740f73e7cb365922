"""The price lists that results are priced by, one a service, and the way of what is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bucketbench.configuration.directory import PACKAGED
from bucketbench.cost.bill import Usage, bill
from bucketbench.cost.prices import PriceList, read_prices
from bucketbench.errors import UsageError

__all__ = ["SAME_REGION", "Pricing", "read_pricing"]

SAME_REGION: Final = "same_region"
"""The way of what is read where none is chosen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pricing:
    """By which prices a run's work is priced.

    Args:
        lists: the price list of each scheme, all in one currency.
        route: the way of what is read.
    """

    lists: Mapping[str, PriceList]
    route: str

    @property
    def currency(self) -> str:
        """Of all amounts."""
        return next(iter(self.lists.values())).currency

    def described(self, schemes: Sequence[str]) -> str:
        """In a sentence: the lists of these schemes with their dates, and the way of what is read."""
        told = ", ".join(f"{one.name} of {one.as_of}" for name, one in self.lists.items() if name in schemes)
        return f"prices: {told or 'none'}, in {self.currency}; what is read goes by {self.route}"


def read_pricing(names: Sequence[str] = (), *, route: str = SAME_REGION) -> Pricing:
    """Read price lists.

    Args:
        names: of files of ``conf/prices``, in the current directory or else in the package, or paths of files; each
            takes the place of its scheme's standard list.
        route: the way of what is read, as the lists have it.

    Raises:
        ConfigurationError: a file cannot be read, is no price list, or does not know the way.
        UsageError: the lists are in several currencies, or two are of one scheme.
    """
    chosen: dict[str, PriceList] = {}
    for name in names:
        found = read_prices(_file(name))
        if found.scheme in chosen:
            raise UsageError(f"{chosen[found.scheme].name} and {found.name} are both price lists of {found.scheme}://")
        chosen[found.scheme] = found
    lists = {scheme: read_prices(_file(scheme)) for scheme in ("s3", "gs")} if not names else {}
    # A list of one service alone, in a currency of its own, is not held against the other's standard list.
    lists |= chosen
    currencies = {one.currency for one in lists.values()}
    if len(currencies) > 1:
        raise UsageError(f"the price lists are in {' and '.join(sorted(currencies))}: choose lists of one currency")
    for one in lists.values():
        bill(Usage(requests={}), one, route=route)  # which says where it does not know the way
    return Pricing(lists=lists, route=route)


def _file(name: str) -> Path:
    """The file of a price list: a path as it is, or the name of one in ``conf/prices``."""
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    places = [directory / "prices" / f"{name}.yaml" for directory in (Path("conf"), PACKAGED)]
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        known = sorted({path.stem for place in places for path in place.parent.glob("*.yaml")})
        raise UsageError(f"there is no price list {name!r}: give a YAML file, or one of {', '.join(known)}")
    return found
