"""Options shared by every test."""

from __future__ import annotations

import signal

import pytest


def pytest_configure() -> None:
    # A shell's background job (`nohup make test &`, as CI may run it) ignores SIGINT, and so would all that the tests
    # start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--live", action="store_true", help="also run the tests that need a real bucket")
    parser.addoption(
        "--write-tables",
        action="store_true",
        help="replace the tables of docs/testbed.md by those that the tests made, where all their tests run",
    )


@pytest.fixture(scope="session")
def write_tables(request: pytest.FixtureRequest) -> bool:
    """Whether a table that the tests make replaces the document's."""
    return bool(request.config.getoption("--write-tables"))


# Each takes minutes: begun last, one of them would run by itself at the end, while the other workers have nothing left.
_LONGEST = ("test_readme.py", "test_sweep.py", "test_clients.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in _LONGEST)
    if config.getoption("--live"):
        return
    for item in items:
        if "live" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs a real bucket: pass --live"))
