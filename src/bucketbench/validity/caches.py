"""The rule of the page cache: whether what was read came from where it is said to lie."""

from __future__ import annotations

from typing import Final

from bucketbench.records import Phase, State
from bucketbench.statistics.figures import MIB
from bucketbench.statistics.windows import by_epoch
from bucketbench.validity.evidence import ARRIVALS, Evidence, NotJudgedError

__all__ = ["CACHED_SHARE", "page_cache"]

CACHED_SHARE: Final = 0.10
"""Share of the content that may come from memory instead of the disk or the network. *Source*: ours; the kernel keeps
some pages whatever is done, and counts what it reads ahead."""

_READ: Final = {
    "disk": "the kernel does not tell how much was read from storage devices",
    "mount": "neither the server nor the host's network counters tell how much was sent",
}


def page_cache(evidence: Evidence) -> tuple[State, str] | None:
    """Invalid where a client that reads files got them from memory: data that fit it, and were read or made before."""
    through = evidence.details.get("reads_through")
    if through not in _READ:
        return None  # the client's own connections bring what it reads
    content_bytes, windows = evidence.content_bytes, evidence.reading_windows
    if not content_bytes or not windows:
        raise NotJudgedError("nothing was read")
    try:
        read_bytes = _read_from_disk(evidence) if through == "disk" else _sent_bytes(evidence)
    except NotJudgedError as error:
        return _by_size(evidence, str(error))
    cached = max(1 - read_bytes / content_bytes, 0.0)
    if cached <= CACHED_SHARE:
        return None
    source = "a storage device" if through == "disk" else "the network"
    return State.INVALID, (
        f"{cached:.0%} of the {content_bytes / MIB:,.0f} MiB that were read came from this machine's memory and not "
        f"from {source} (limit {CACHED_SHARE:.0%}): set clear_kernel_cache=true, or read more than memory holds"
    )


def _read_from_disk(evidence: Evidence) -> float:
    return sum(
        evidence.grown(samples, lambda one: one.storage_read_bytes, evidence.reading_windows, absent=_READ["disk"])
        for machine in evidence.of_machines()
        for samples in machine
    )


def _sent_bytes(evidence: Evidence) -> float:
    """What the server sent, or else what the host received, of whomever and with headers: no less than the client."""
    if evidence.server is not None:
        return float(evidence.server.bytes_out)
    received = [
        evidence.grown(
            machine[0], lambda one: one.network_received_bytes, evidence.reading_windows, absent=_READ["mount"]
        )
        for machine in evidence.of_machines()
    ]
    if not received:
        raise NotJudgedError(_READ["mount"])
    return sum(received)


def _by_size(evidence: Evidence, obstacle: str) -> tuple[State, str]:
    """What is left to go by: whether memory could hold the data."""
    memory_bytes = evidence.memory_bytes
    if memory_bytes is None:
        raise NotJudgedError(obstacle)
    arrived = by_epoch(one for one in evidence.operations if one.kind in ARRIVALS and one.phase is Phase.MEASURE)
    largest = max(
        sum(one.content_bytes for one in arrived.get(window.epoch, ())) for window in evidence.reading_windows
    )
    largest //= evidence.nodes  # each machine reads its share
    if largest >= memory_bytes:
        raise NotJudgedError(obstacle)
    return State.DOUBTFUL, (
        f"the {largest / MIB:,.0f} MiB that a machine read fit its memory of {memory_bytes / MIB:,.0f} MiB, and "
        f"{obstacle}: they may have come from the page cache"
    )
