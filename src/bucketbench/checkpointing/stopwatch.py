"""Times one save or load of all ranks together, and takes what it used meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bucketbench.ranks import Ranks
from bucketbench.scenarios.recording import Recorder
from bucketbench.scenarios.server import ServerDifference
from bucketbench.statistics import ServerCounts
from bucketbench.telemetry.peak_memory import forget_peak, give_back_free_memory, peak_rss_bytes, rss_bytes

__all__ = ["Stopwatch", "Timed"]


@dataclass(kw_only=True, slots=True)
class Timed:
    """One save or load as it was measured, times by ``time.monotonic``.

    Args:
        value: what was loaded.
        started_s: when it began.
        staged_s: when a save in the background let the training go on; None for one in the foreground.
        trained_s: when the training steps after a save began and ended; None without any.
        ended_s: when the checkpoint was durable, or loaded.
        added_bytes: by how much memory exceeded, at most, that before the client was built; None where nothing tells.
        server: what the testbed counted meanwhile; None where nothing tells, and on all ranks but the first.
    """

    value: Any = None
    started_s: float = 0.0
    staged_s: float | None = None
    trained_s: tuple[float, float] | None = None
    ended_s: float = 0.0
    added_bytes: int | None = None
    server: ServerCounts | None = None

    @property
    def duration_s(self) -> float:
        """Seconds from start to end."""
        return self.ended_s - self.started_s


class Stopwatch:
    """Times what all ranks begin at the same time. It is made right before the client is.

    Args:
        recorder: takes the usage samples.
        ranks: those that are waited for.
        admin_url: the testbed's, None for a real service.
    """

    def __init__(self, recorder: Recorder, ranks: Ranks, *, admin_url: str | None) -> None:
        self._recorder = recorder
        self._ranks = ranks
        self._admin_url = admin_url if ranks.is_first else None
        recorder.mark_edge()
        self._bare_bytes = rss_bytes() if forget_peak() else None

    def time(self, work: Callable[[Timed], None]) -> Timed:
        """Do something when all ranks are here; it may say by ``ended_s`` when it really was over."""
        timed = Timed()
        give_back_free_memory()  # so that nothing of the step before counts as this one's
        with ServerDifference(self._admin_url) as server:
            forgotten = forget_peak()
            self._recorder.mark_edge()
            self._ranks.wait_for_all()
            timed.started_s = time.monotonic()
            work(timed)
            timed.ended_s = timed.ended_s or time.monotonic()
            # What the client returned is still there, so that the sample has the memory that it takes.
            self._recorder.mark_edge()
            if forgotten and self._bare_bytes is not None:
                timed.added_bytes = max(peak_rss_bytes() - self._bare_bytes, 0)
            self._ranks.wait_for_all()
        timed.server = server.counts
        return timed
