"""The runs as Markdown."""

from __future__ import annotations

import statistics
from typing import Any

from engine_measurement.work import LARGE_BYTES, MIB, SMALL_COUNT

__all__ = ["table"]


def table(runs: list[dict[str, Any]], command: str, host: str) -> str:
    """The runs as Markdown: medians, with the least and the most of CPU time in brackets."""
    lines = [
        "# Engines measured",
        "",
        f"`{command}`",
        "",
        host,
        "",
        "Medians; the least and the most in brackets. torchbucket signs, checks and retries, and sums a CRC-64 of what "
        "it writes; pycurl-threads and http.client do none of that. Runs differ by a third on a shared machine.",
        "",
        "| work | engine | HTTP: rate | HTTP: CPU | TLS: rate | TLS: CPU |",
        "|---|---|---|---|---|---|",
    ]
    for work in dict.fromkeys(run["work"] for run in runs):
        for engine in dict.fromkeys(run["engine"] for run in runs):
            cells = []
            for tls in (False, True):
                chosen = [r for r in runs if (r["work"], r["engine"], r["tls"]) == (work, engine, tls)]
                wall_s = statistics.median(run["wall_s"] for run in chosen)
                used = sorted(run["cpu_s"] for run in chosen)
                if work == "small reads":
                    scale, unit = 1000 / SMALL_COUNT, "ms an object"
                    cells.append(f"{SMALL_COUNT / wall_s:,.0f} objects/s")
                else:
                    scale, unit = (1 << 30) / LARGE_BYTES, "s a GiB"
                    cells.append(f"{LARGE_BYTES / MIB / wall_s:,.0f} MiB/s")
                figures = [value * scale for value in (statistics.median(used), used[0], used[-1])]
                cells.append("{:.2f} {} ({:.2f} to {:.2f})".format(figures[0], unit, *figures[1:]))
            lines.append(f"| {work} | {engine} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
