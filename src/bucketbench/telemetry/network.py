"""Bytes that went over the host's network interfaces."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

__all__ = ["NetworkUsage", "read_network"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkUsage:
    """Bytes over all interfaces of the host since it started, of every process."""

    received_bytes: int
    sent_bytes: int


def read_network() -> NetworkUsage | None:
    """Read the host's counters now, loopback included; None where they cannot be read.

    Over loopback every byte is sent once and received once by the same host, so that requests and answers both count
    in both numbers.
    """
    try:
        counters = psutil.net_io_counters()
        return NetworkUsage(received_bytes=counters.bytes_recv, sent_bytes=counters.bytes_sent)
    except (
        OSError,
        RuntimeError,
        AttributeError,
    ):  # no /proc/net/dev, or no interface
        return None
