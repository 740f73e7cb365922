from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from scripted_s3 import SECRET, ScriptedS3

from torchbucket.config import MIB, RetryConfig, StoreConfig
from torchbucket.store import RequestRecord, Store, open_store


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAFAULT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", f"token-{SECRET}")


@pytest.fixture
def server() -> Iterator[ScriptedS3]:
    with ScriptedS3() as running:
        yield running


@pytest.fixture
def records() -> list[RequestRecord]:
    return []


@pytest.fixture
def opened(server: ScriptedS3, records: list[RequestRecord]) -> Iterator[Callable[..., Store]]:
    """Opens stores on the scripted server that wait milliseconds between attempts and ask for no read twice.

    On a busy machine a read may be late, and a second request would meet the fault that was meant for another.
    """
    stores = []

    def make(**fields: object) -> Store:
        settings = {
            "endpoint": server.endpoint,
            "region": "us-east-1",
            "part_size_bytes": 5 * MIB,
            "memory_budget_bytes": 20 * MIB,
            "retry": RetryConfig(initial_s=0.001, maximum_s=0.05),
            "hedge_share": 0.0,
            **fields,
        }
        stores.append(open_store("s3://bucket", StoreConfig(**settings), observer=records.append))
        return stores[-1]

    yield make
    for store in stores:
        store.close()
