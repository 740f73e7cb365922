"""What a sink provides, and what it raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from bucketbench.errors import BucketbenchError
from bucketbench.sinks.document import RunDocument

__all__ = ["Pushed", "Sink", "SinkError"]


class SinkError(BucketbenchError):
    """A sink could not take a run; the message names it, says why, and what to do. The run's files are untouched."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pushed:
    """What a sink has after a push.

    Args:
        where: the sink's table, in words.
        jobs: how many jobs of the run the table has, counted there.
        command: what gets the run back, for a shell.
    """

    where: str
    jobs: int
    command: str


class Sink(Protocol):
    """Takes runs into a table.

    The class is built from its file in ``conf/sink/``: every key but ``name``, ``_target_``, ``requires`` and ``path``
    is an argument. Building it checks the arguments and reaches no network, since that happens before the sweep.
    """

    def push(self, run: RunDocument) -> Pushed:
        """Put a run into the table, in the place of what it has of the same run.

        Pushing a run twice leaves what pushing it once does, also where the first push broke off, and one that has
        grown is there as it is now.

        Raises:
            SinkError: it could not be done, or not all of it.
        """

    def fetch(self, run_id: str) -> list[dict[str, Any]]:
        """The ``run_results.json`` of every run that the table has under an identifier, the oldest first.

        There may be several: machines that begin at the same second give their runs one name.

        Raises:
            SinkError: they could not be read.
        """
