"""Measures the testbed on this machine and writes the pages about it anew.

    python utils/measure_testbed.py [--quick] [--only shaping|capacity|uploads] [--into DIRECTORY]

`docs/results/testbed-shaping.md`: asked and achieved latency and bandwidth with the network model on.
`docs/results/testbed-capacity.md`: requests/s and bytes/s with it off, with and without the request log, and listings.
`docs/results/testbed-uploads.md`: bytes/s of parts, with and without ETags that are MD5s.

The client is a program of bare sockets in a process of its own. A full run takes about eight minutes and should have
the machine for itself; `--quick` takes about two, measures fewer points, and is for seeing that all of it works.
"""

import argparse
import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from testbed_measurement.capacity import capacity_tables
from testbed_measurement.listing import listing_table
from testbed_measurement.session import Session, session
from testbed_measurement.shaping import Plan, shaping_tables
from testbed_measurement.tables import Table, write_page
from testbed_measurement.uploads import uploads_table

_RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
_LOG_REQUESTS = 100_000

_FULL = Plan(presets=("lan", "regional", "cross_region"), connections=(1, 4, 16, 64, 256), seconds=3.0)
_QUICK = Plan(presets=("lan", "regional"), connections=(1, 16, 256), seconds=1.5)

_SHAPING_TEXT = """\
With the network model on: what was asked for, what a client of bare sockets in a process of its own saw, and where the
testbed's log said that this machine does not keep the model (`said so`). Asked is the model's formula, without anything
that the machine adds. A point that misses by more than 5 % and is marked asks for more than the machine carries."""

_CAPACITY_TEXT = """\
With the network model off and objects in memory: how much the testbed carries, and what it takes of the processors
that it shares with what is measured. The client is a program of bare sockets in a process of its own, one thread."""


_UPLOADS_TEXT = """\
With the network model off: parts of multipart uploads, with ETags that are the MD5 of the bytes, as S3 has them, and
with `--opaque-etags`, as S3 has them under a KMS key. The client is a program of bare sockets in a process of its own,
one thread, that sends zeros and no checksum, so that the server computes a CRC-64 and a CRC-32C."""


def main() -> None:
    """Measures what is asked for, shows each table, and writes the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer points, shorter")
    parser.add_argument("--only", choices=("shaping", "capacity", "uploads"), help="one of the pages")
    parser.add_argument("--into", type=Path, default=_RESULTS, help="where the pages are written")
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    plan = _QUICK if options.quick else _FULL
    command = "python utils/measure_testbed.py --quick" if options.quick else "make bench-testbed"
    options.into.mkdir(parents=True, exist_ok=True)
    if options.only in (None, "uploads"):
        write_page(
            options.into / "testbed-uploads.md",
            title="How fast the testbed takes uploads in",
            text=_UPLOADS_TEXT,
            command="python utils/measure_testbed.py --only uploads",
            tables=_shown(iter([uploads_table(plan.seconds)])),
        )
    if options.only == "uploads":
        return
    with contextlib.ExitStack() as stack:
        plain, tls = stack.enter_context(session()), stack.enter_context(session(tls=True))
        if options.only != "capacity":
            write_page(
                options.into / "testbed-shaping.md",
                title="How exactly the testbed shapes",
                text=_SHAPING_TEXT,
                command=command,
                tables=_shown(shaping_tables(plan, plain, tls)),
            )
        if options.only != "shaping":
            plain.testbed.set_network("none")
            tls.testbed.set_network("none")
            logged = stack.enter_context(session(log_requests=_LOG_REQUESTS))
            write_page(
                options.into / "testbed-capacity.md",
                title="What the testbed carries",
                text=_CAPACITY_TEXT,
                command=command,
                tables=_shown(_capacity(plan, plain, logged, tls, quick=options.quick)),
            )


def _capacity(plan: Plan, plain: Session, logged: Session, tls: Session, *, quick: bool) -> Iterator[Table]:
    connections = tuple(count for count in plan.connections if count != 4)
    yield from capacity_tables(connections, plan.seconds, plain=plain, logged=logged, tls=tls)
    yield listing_table((20_000,) if quick else (100_000, 1_000_000))


def _shown(tables: Iterator[Table]) -> Iterator[Table]:
    """Yields the tables as they come, and shows them."""
    for table in tables:
        print(table.markdown(), flush=True)
        yield table


if __name__ == "__main__":
    sys.exit(main())
