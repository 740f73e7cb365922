"""A client that is built with an object of its own, which its configuration describes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class Pause:
    def __init__(self, times: int, *, seconds: float) -> None:
        time.sleep(times * seconds)


class Waiting:
    def __init__(self, pause: Callable[[int], Pause]) -> None:
        self._pause = pause

    def wait(self, target: Any) -> None:
        assert target.uri.startswith("s3://")
        self._pause(1)
