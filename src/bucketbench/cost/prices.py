"""The price list of a storage service: one file of ``conf/prices``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, Self

import yaml

from bucketbench.configuration.values import check_keys
from bucketbench.errors import ConfigurationError

__all__ = ["PriceList", "read_prices"]

_KEYS: Final = (
    "name", "scheme", "currency", "as_of", "sources", "requests", "received_per_gib", "sent_per_gib",
    "stored_per_gib_month",
)  # fmt: skip
_LARGEST: Final = 1e12  # no price, in whatever currency
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class PriceList:
    """What a service charges, in one currency.

    Args:
        name: of the storage class.
        scheme: whose prices they are, ``s3`` or ``gs``.
        currency: of all amounts.
        as_of: the day that they are of, YYYY-MM-DD.
        sources: where they stand.
        per_1000: the price of 1,000 requests by their class.
        classes: the class of each operation, by the names that the testbed counts operations by.
        received_per_gib: the price of a GiB that is read, by the way it takes.
        sent_per_gib: the price of a GiB that is written.
        stored_per_gib_month: the price of keeping a GiB for a month.
    """

    name: str
    scheme: str
    currency: str
    as_of: str
    sources: tuple[str, ...]
    per_1000: Mapping[str, float]
    classes: Mapping[str, str]
    received_per_gib: Mapping[str, float]
    sent_per_gib: float
    stored_per_gib_month: float

    @classmethod
    def from_mapping(cls, fields: Mapping[str, Any]) -> Self:
        """The price list of a file's content.

        Raises:
            ConfigurationError: a key is missing or unknown, an amount is none, or an operation is in two classes.
        """
        check_keys("prices", fields, _KEYS)
        for key in ("requests", "received_per_gib"):
            if not isinstance(fields[key], Mapping) or not fields[key]:
                raise ConfigurationError(f"prices.{key}={fields[key]}: expected keys and values")
        for name, of_class in fields["requests"].items():
            check_keys(f"prices.requests.{name}", of_class, ("per_1000", "operations"))
            _check_names(f"requests.{name}.operations", of_class["operations"])
        _check_names("sources", fields["sources"])
        for key in ("name", "scheme", "currency"):
            if not isinstance(fields[key], str) or not fields[key]:
                raise ConfigurationError(f"prices.{key}={fields[key]}: expected a word")
        if not _is_day(fields["as_of"]):
            raise ConfigurationError(
                f'prices.as_of={fields["as_of"]}: expected the day of the prices in quotes, such as "2026-11-29"'
            )
        classes: dict[str, str] = {}
        for name, of_class in fields["requests"].items():
            for operation in of_class["operations"]:
                if classes.setdefault(operation, name) != name:
                    raise ConfigurationError(
                        f"prices.requests: {operation} is in the classes {classes[operation]} and {name}, and is "
                        "charged once"
                    )
        return cls(
            name=fields["name"],
            scheme=fields["scheme"],
            currency=fields["currency"],
            as_of=fields["as_of"],
            sources=tuple(fields["sources"]),
            per_1000={
                name: _amount(f"requests.{name}.per_1000", of_class["per_1000"])
                for name, of_class in fields["requests"].items()
            },
            classes=classes,
            received_per_gib={
                route: _amount(f"received_per_gib.{route}", price)
                for route, price in fields["received_per_gib"].items()
            },
            sent_per_gib=_amount("sent_per_gib", fields["sent_per_gib"]),
            stored_per_gib_month=_amount("stored_per_gib_month", fields["stored_per_gib_month"]),
        )


def read_prices(path: Path) -> PriceList:
    """Read a file of ``conf/prices``.

    Raises:
        ConfigurationError: there is no such file, or it is no price list.
    """
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: cannot be read as a price list: {error}") from error
    try:
        return PriceList.from_mapping(fields)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _check_names(key: str, value: Any) -> None:
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise ConfigurationError(f"prices.{key}={value}: expected a list of texts")


def _is_day(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(_DAY.fullmatch(value)) and date.fromisoformat(value) is not None
    except ValueError:
        return False


def _amount(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
        raise ConfigurationError(f"prices.{key}={value}: expected an amount of money, at least 0")
    return float(value)
