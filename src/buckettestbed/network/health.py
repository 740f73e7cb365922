"""Whether the network model is kept: what was asked and what was achieved, counted, and said in the log where not.

A deadline that is met late is this machine's doing. What a transfer loses between a deadline met and its next request
for bytes is its peer's: a reader whose socket is full, a sender that has nothing to send. Unless the machine was so
busy that the peer, which may run on it too, got no processor, or the testbed itself had no time to see what its peer
had done: processor times decide that.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["TOLERANCE", "Health"]

TOLERANCE = 0.05
"""How far the mean first byte or the bandwidth of a window may be from what was asked before a warning is due.
*Source*: the testbed's promise, 5 % (docs/testbed.md)."""

_WINDOW_S = 2.0
_LEAST_DEADLINES = 10
"""A window with fewer first bytes, or pieces of bodies, is too small to speak of. *Source*: ours; one interruption of
10 ms among ten waits of 20 ms is just the tolerance."""

_WARNING_EVERY_S = 5.0
"""*Source*: ours; seldom enough to be read."""

_BUSY = 0.9
"""Share of all processors' time, or of one for the testbed itself, above which slow peers are put down to the machine.
*Source*: ours; with two cores, one is full and the other nearly."""

_MIB = 1 << 20
_logger = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class _Tally:
    """Sums over a time."""

    first_bytes: int = 0
    late_first_bytes: int = 0
    asked_s: float = 0.0
    late_s: float = 0.0
    worst_late_s: float = 0.0
    pieces: int = 0
    sent_bytes: int = 0
    transfer_s: float = 0.0
    behind_machine_s: float = 0.0
    behind_peer_s: float = 0.0

    def add(self, other: "_Tally") -> None:
        """Adds another's sums."""
        self.first_bytes += other.first_bytes
        self.late_first_bytes += other.late_first_bytes
        self.asked_s += other.asked_s
        self.late_s += other.late_s
        self.worst_late_s = max(self.worst_late_s, other.worst_late_s)
        self.pieces += other.pieces
        self.sent_bytes += other.sent_bytes
        self.transfer_s += other.transfer_s
        self.behind_machine_s += other.behind_machine_s
        self.behind_peer_s += other.behind_peer_s


class Health:
    """Counts how well a network model is kept. One event loop owns it; each call costs about a microsecond.

    Args:
        clock: seconds.
        processors: busy and passed time of all processors together, or None where that cannot be known.
        own_s: processor seconds of this process.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        processors: Callable[[], tuple[float, float] | None] | None = None,
        own_s: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock = clock
        self._processors = processors or processor_seconds
        self._own_s = own_s
        self._total = _Tally()
        self._warnings = 0
        self._asked_s = self._lost_s = 0.0
        self._warned_s = float("-inf")
        self._window = _Tally()
        self._begun_s: float | None = None
        self._begun_processors: tuple[float, float] | None = None
        self._begun_own_s = 0.0

    def first_byte(self, asked_s: float, late_s: float) -> None:
        """Counts a first byte that was asked for after `asked_s` and left `late_s` too late."""
        window = self._current()
        window.first_bytes += 1
        window.asked_s += asked_s
        if late_s > 0:
            window.late_s += late_s
            window.behind_machine_s += late_s
            window.late_first_bytes += late_s > asked_s * TOLERANCE
            window.worst_late_s = max(window.worst_late_s, late_s)

    def piece(self, size_bytes: int, asked_s: float, late_s: float) -> None:
        """Counts a piece of a body that was to take `asked_s` and was sent `late_s` too late, which the transfer may
        yet make up for."""
        window = self._current()
        window.pieces += 1
        window.sent_bytes += size_bytes
        window.transfer_s += asked_s
        window.worst_late_s = max(window.worst_late_s, late_s)

    def behind(self, *, machine_s: float = 0.0, peer_s: float = 0.0) -> None:
        """Counts what a transfer lost and will not make up for, by who was to blame."""
        window = self._current()
        window.behind_machine_s += machine_s
        window.behind_peer_s += peer_s

    def snapshot(self) -> dict[str, object]:
        """Returns the counts since the beginning as plain values, after judging what was not yet.

        `first_bytes` were waited for; `late_first_bytes` of them came more than 5 % late; `first_byte_asked_s` and
        `first_byte_late_s` are means; `worst_late_s` is that of any deadline. `sent_bytes` is what transfers carried.
        `behind_machine_share` and `behind_peer_share` are the shares of all waits and transfers that were lost to this
        machine and to slow peers. `warnings` counts those in the log, of which there is one every 5 s at most, and
        `asked_s` is what all waits and transfers were to take together, and `lost_s` what those took beyond that in
        windows in which the model was not kept, slow peers on a busy machine included.
        """
        self._end_window()
        total = self._total
        first_bytes = max(1, total.first_bytes)
        spent_s = total.asked_s + total.transfer_s + total.behind_machine_s + total.behind_peer_s or 1.0
        return {
            "first_bytes": total.first_bytes,
            "late_first_bytes": total.late_first_bytes,
            "first_byte_asked_s": total.asked_s / first_bytes,
            "first_byte_late_s": total.late_s / first_bytes,
            "worst_late_s": total.worst_late_s,
            "sent_bytes": total.sent_bytes,
            "behind_machine_share": total.behind_machine_s / spent_s,
            "behind_peer_share": total.behind_peer_s / spent_s,
            "warnings": self._warnings,
            "asked_s": self._asked_s,
            "lost_s": self._lost_s,
        }

    def reset(self) -> None:
        """Starts the counts again."""
        self._total, self._window, self._begun_s = _Tally(), _Tally(), None
        self._warnings = 0
        self._asked_s = self._lost_s = 0.0

    def _current(self) -> _Tally:
        """Returns the window to count in, after judging the one that is over."""
        now_s = self._clock()
        if self._begun_s is None or now_s - self._begun_s >= _WINDOW_S:
            self._end_window()
            self._begun_s = now_s
            self._begun_processors, self._begun_own_s = self._processors(), self._own_s()
        return self._window

    def _end_window(self) -> None:
        """Judges the window, if one has begun, and adds it to the total."""
        if self._begun_s is not None:
            self._judge(self._clock())
        self._total.add(self._window)
        self._window, self._begun_s = _Tally(), None

    def _judge(self, now_s: float) -> None:
        """Warns of a window in which the model was not kept, if the last warning is long enough ago."""
        window, elapsed_s = self._window, max(1e-9, now_s - (self._begun_s or 0.0))
        busy_share = self._busy_share()
        behind_s = window.behind_machine_s
        own_share = (self._own_s() - self._begun_own_s) / elapsed_s
        if own_share > _BUSY or (busy_share is not None and busy_share > _BUSY):
            behind_s += window.behind_peer_s
        asked_s = window.asked_s + window.transfer_s
        self._asked_s += asked_s
        late = window.first_bytes >= _LEAST_DEADLINES and window.late_s > TOLERANCE * window.asked_s
        enough = window.pieces > 0 and window.first_bytes + window.pieces >= _LEAST_DEADLINES
        slow = enough and behind_s > TOLERANCE * asked_s
        if not (late or slow):
            return
        self._lost_s += behind_s
        if now_s - self._warned_s < _WARNING_EVERY_S:
            return
        self._warned_s = now_s
        self._warnings += 1
        told = []
        if late:
            wanted_s, late_s = window.asked_s / window.first_bytes, window.late_s / window.first_bytes
            told.append(
                f"first bytes were asked for after {wanted_s * 1e3:.2f} ms and came after"
                f" {(wanted_s + late_s) * 1e3:.2f} ms (means of {window.first_bytes})"
            )
        if slow:
            achieved = window.sent_bytes / elapsed_s / _MIB
            told.append(
                f"waits and transfers were to take {asked_s:.2f} s and took {asked_s + behind_s:.2f} s, that is"
                f" {achieved:,.0f} MiB/s where {achieved * (1 + behind_s / asked_s):,.0f} were asked for"
            )
        busy = f"; the testbed took {own_share:.2f} processors"
        if busy_share is not None:
            busy += f", all together were {busy_share:.0%} busy"
        _logger.warning(
            "this machine does not keep the network model: in the last %.1f s %s%s. Figures taken now are its own,"
            " not the model's: use fewer connections, or a model that asks for less",
            elapsed_s,
            ", and ".join(told),
            busy,
        )

    def _busy_share(self) -> float | None:
        """Returns the share of the window's processor time that was used, or None where that cannot be known."""
        begun, ended = self._begun_processors, self._processors()
        if begun is None or ended is None or ended[1] <= begun[1]:
            return None
        return (ended[0] - begun[0]) / (ended[1] - begun[1])


def processor_seconds() -> tuple[float, float] | None:
    """Returns the time that all processors together were busy, and the time that passed on them, in a unit of the
    kernel's; None where `/proc/stat` does not tell.

    *Source*: Linux, proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal.
    """
    try:
        with Path("/proc/stat").open(encoding="ascii") as file:
            fields = [int(field) for field in file.readline().split()[1:9]]
        idle = fields[3] + fields[4]
    except (OSError, ValueError, IndexError):
        return None
    return float(sum(fields) - idle), float(sum(fields))
