"""An iteration that fails for good: what is missing after a failure is not taken for the end."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Self, TypeVar

__all__ = ["Iteration"]

T = TypeVar("T")


class Iteration(Iterator[T]):
    """Yields what a generator does; after a failure every further ``next`` fails too.

    A generator that raised is at its end, and a loop that goes on with it would see a short epoch.

    Args:
        samples: begins with the first ``next``.
    """

    def __init__(self, samples: Generator[T, None, None]) -> None:
        self._samples = samples
        self._failure: str | None = None  # the error itself would keep what was read

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self._failure is not None:
            raise RuntimeError(f"this iteration failed before, with {self._failure}; begin a new one")
        try:
            return next(self._samples)
        except StopIteration:
            raise
        except BaseException as error:
            self._failure = f"{type(error).__name__}: {error}"
            raise

    def close(self) -> None:
        """End the iteration and drop the reads that are under way; closing again is allowed."""
        self._samples.close()
