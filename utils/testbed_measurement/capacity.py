"""How much the testbed carries with the network model off, by bare sockets in another process."""

from collections.abc import Iterator
from dataclasses import replace

from testbed_measurement.load import Load
from testbed_measurement.session import (
    BUCKET,
    LARGE_KEY,
    SMALL_KEY,
    SMALL_OBJECTS,
    Measured,
    Session,
)
from testbed_measurement.tables import Table, thousands

_MIB, _GIB = 1 << 20, 1 << 30
_RANGE_BYTES = 8 * _MIB
_LARGE_CONNECTIONS = 4


def capacity_tables(
    connections: tuple[int, ...], seconds: float, *, plain: Session, logged: Session, tls: Session
) -> Iterator[Table]:
    """Measures table by table; `uploads_table` has what is written.

    Args:
        connections: numbers of them, for small reads.
        seconds: for each row.
        plain: a testbed without a log.
        logged: one with a log of requests.
        tls: one over TLS.
    """
    yield _small(connections, seconds, {"no": plain, "yes": logged})
    yield _large(seconds, {"HTTP": plain, "HTTPS": tls})


def _small(connections: tuple[int, ...], seconds: float, sessions: dict[str, Session]) -> Table:
    table = Table(
        title="GETs of 100 KiB",
        text="Each connection asks again as soon as it has its answer. `log`: the request log is on.",
        columns=("API", "log", "connections", "requests/s", "MiB/s", *_CPU_COLUMNS),
    )
    for log, session in sessions.items():
        testbed = session.testbed
        apis = (
            ("S3", testbed.s3_endpoint, f"/{BUCKET}/{SMALL_KEY}/{{}}"),
            ("GCS XML", testbed.gcs_endpoint, f"/{BUCKET}/{SMALL_KEY}/{{}}"),
            ("GCS JSON", testbed.gcs_endpoint, f"/download/storage/v1/b/{BUCKET}/o/{SMALL_KEY}%2F{{}}?alt=media"),
        )
        for api, endpoint, path in apis:
            for count in connections:
                load = Load(
                    endpoint=endpoint,
                    paths=tuple(path.format(number) for number in range(SMALL_OBJECTS)),
                    connections=count,
                    seconds=seconds,
                )
                result = session.measure(load)
                outcome = result.outcome
                table.add(
                    api,
                    log,
                    count,
                    thousands(outcome.requests_per_s),
                    thousands(outcome.received_bytes / outcome.elapsed_s / _MIB),
                    *_cpu(result),
                )
    return table


_CPU_COLUMNS = ("CPU ms a request: server", "client", "cores: server", "client")


def _cpu(result: Measured) -> Iterator[str]:
    outcome = result.outcome
    requests = len(outcome.total_s)
    yield f"{1e3 * result.server_cpu_s / requests:.3f}"
    yield f"{1e3 * outcome.cpu_s / requests:.3f}"
    yield f"{result.server_cores:.2f}"
    yield f"{outcome.cpu_s / outcome.elapsed_s:.2f}"


def _large(seconds: float, sessions: dict[str, Session]) -> Table:
    table = Table(
        title="Large reads",
        text=f"S3, {_LARGE_CONNECTIONS} connections.",
        columns=("work", "over", "MiB/s", "CPU s a GiB: server", "client", "cores: server", "client"),
    )
    large = Load(endpoint="", paths=(f"/{BUCKET}/{LARGE_KEY}",), connections=_LARGE_CONNECTIONS, seconds=seconds)
    works = (("GETs of 512 MiB", large), ("GETs of 8 MiB ranges", replace(large, range_bytes=_RANGE_BYTES)))
    for over, session in sessions.items():
        for work, load in works:
            result = session.measure(replace(load, endpoint=session.testbed.s3_endpoint))
            outcome = result.outcome
            table.add(
                work,
                over,
                thousands(outcome.received_bytes / outcome.elapsed_s / _MIB),
                f"{result.server_cpu_s * _GIB / outcome.received_bytes:.2f}",
                f"{outcome.cpu_s * _GIB / outcome.received_bytes:.2f}",
                f"{result.server_cores:.2f}",
                f"{outcome.cpu_s / outcome.elapsed_s:.2f}",
            )
    return table
