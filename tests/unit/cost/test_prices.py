"""The price lists that come with the harness, and what is made of requests and bytes with them."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import yaml

from bucketbench.configuration.directory import PACKAGED
from bucketbench.cost.bill import Usage, bill, month_of_storage
from bucketbench.cost.prices import PriceList, read_prices
from bucketbench.errors import ConfigurationError
from buckettestbed.operations import gcs_json, gcs_xml, s3

FILES = {path.stem: path for path in (PACKAGED / "prices").glob("*.yaml")}
COUNTED = {"s3": s3.OPERATIONS, "gs": gcs_json.OPERATIONS | gcs_xml.OPERATIONS | {"token"}}


@pytest.mark.parametrize("name", FILES)
def test_a_list_prices_all_that_its_protocol_has_and_nothing_else(name: str) -> None:
    prices = read_prices(FILES[name])
    assert prices.scheme == name.partition("-")[0]
    assert set(prices.classes) == COUNTED[prices.scheme]
    assert set(prices.classes.values()) == set(prices.per_1000)


@pytest.mark.parametrize("name", FILES)
def test_a_list_says_where_it_stands(name: str) -> None:
    prices = read_prices(FILES[name])
    assert prices.sources
    assert all(re.search(r"pricing|billing", source) for source in prices.sources)


def test_a_bill_is_the_arithmetic_of_the_list() -> None:
    prices = read_prices(FILES["s3"])
    usage = Usage(
        requests={"put_object": 2_000, "upload_part": 1_000, "get_object_range": 10_000, "delete_object": 5_000},
        received_bytes=3 << 30,
        sent_bytes=7 << 30,
    )
    found = bill(usage, prices, route="internet")
    assert found.requests == pytest.approx({"write": 0.015, "list": 0.0, "read": 0.004, "free": 0.0})
    assert (found.received, found.sent) == pytest.approx((0.27, 0.0))
    assert found.total == pytest.approx(0.289)
    assert bill(usage, prices).received == 0.0  # in the bucket's region
    assert month_of_storage(100 << 30, prices) == pytest.approx(2.30)


@pytest.mark.parametrize(
    ("name", "operation", "price"),
    [
        # "LIST requests for any storage class" cost what they cost in Standard.
        ("s3-infrequent", "list_objects_v2", 0.005),
        ("s3-infrequent", "put_object", 0.01),
        ("s3-infrequent", "get_object_range", 0.001),
        ("gs-nearline", "list_objects", 0.01),
        ("gs-nearline", "get_object", 0.001),
        # Of listings, class B has that of uploads under way, and what is a GET of an object, as that of parts is.
        ("gs", "list_uploads", 0.0004),
        ("gs", "list_parts", 0.0004),
        ("gs", "list_objects_v2", 0.005),
    ],
)
def test_an_operation_is_in_the_class_that_the_service_says(name: str, operation: str, price: float) -> None:
    assert bill(Usage(requests={operation: 1000}), read_prices(FILES[name])).total == pytest.approx(price)


def test_nothing_is_free_because_it_was_forgotten() -> None:
    prices = read_prices(FILES["gs"])
    with pytest.raises(ConfigurationError, match="gcs-standard does not say what unheard_of costs: add it"):
        bill(Usage(requests={"unheard_of": 1, "get_object": 1}), prices)
    assert bill(Usage(requests={"unheard_of": 0}), prices).total == 0.0
    with pytest.raises(ConfigurationError, match="by the way 'moon' costs; it has same_region, other_region, internet"):
        bill(Usage(requests={}), prices, route="moon")


def _edited(key: str, value: Any) -> dict[str, Any]:
    fields: dict[str, Any] = copy.deepcopy(yaml.safe_load(FILES["s3"].read_text()))
    *groups, last = key.split(".")
    node = fields
    for group in groups:
        node = node[group]
    node[last] = value
    return fields


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("as_of", None, "the day of the prices in quotes"),
        ("requests.read.per_1000", -1, "prices.requests.read.per_1000=-1: expected an amount of money"),
        ("received_per_gib.internet", "much", "prices.received_per_gib.internet=much"),
        ("requests.free.operations", ["get_object"], "get_object is in the classes read and free"),
        ("surcharge", 1, "prices: surcharge is missing or unknown"),
        ("requests.read", {"per_1000": 1}, "prices.requests.read: operations is missing or unknown"),
        ("as_of", "2026-13-01", "the day of the prices in quotes"),
        ("requests", None, "prices.requests=None: expected keys and values"),
        ("received_per_gib", [], "prices.received_per_gib=[]: expected keys and values"),
        ("requests.read.operations", None, "prices.requests.read.operations=None: expected a list of texts"),
        ("requests.read.operations", "get_object", "prices.requests.read.operations=get_object: expected a list"),
        ("sources", None, "prices.sources=None: expected a list of texts"),
        ("currency", None, "prices.currency=None: expected a word"),
        ("sent_per_gib", float("nan"), "prices.sent_per_gib=nan: expected an amount of money"),
        ("sent_per_gib", 10**400, "expected an amount of money"),
    ],
)
def test_an_edit_that_means_nothing_is_told(key: str, value: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        PriceList.from_mapping(_edited(key, value))


def test_a_price_is_edited_and_counts() -> None:
    prices = PriceList.from_mapping(_edited("requests.write.per_1000", 1.0))
    assert bill(Usage(requests={"put_object": 500}), prices).total == pytest.approx(0.5)


def test_a_file_that_is_no_list_is_told(tmp_path: Any) -> None:
    (tmp_path / "mine.yaml").write_text("just words")
    with pytest.raises(ConfigurationError, match=r"mine\.yaml: prices: expected keys and values, found 'just words'"):
        read_prices(tmp_path / "mine.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"name: \xff")
    with pytest.raises(ConfigurationError, match=r"bytes\.yaml: cannot be read as a price list"):
        read_prices(tmp_path / "bytes.yaml")
    with pytest.raises(ConfigurationError, match=r"other\.yaml: cannot be read as a price list"):
        read_prices(tmp_path / "other.yaml")
