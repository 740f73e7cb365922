from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from safetensors_saves import new_run


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is")
        yield


@pytest.fixture
def run() -> str:
    """The address of a run that has no checkpoint yet."""
    return new_run()
