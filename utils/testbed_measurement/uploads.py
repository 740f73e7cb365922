"""How fast parts are taken in, with ETags that are MD5s and with opaque ones."""

from testbed_measurement.load import Load
from testbed_measurement.session import BUCKET, session
from testbed_measurement.tables import Table, thousands

_MIB, _GIB = 1 << 20, 1 << 30
_PART_BYTES = 16 * _MIB
_CONNECTIONS = 4


def uploads_table(seconds: float, *, part_bytes: int = _PART_BYTES) -> Table:
    """Uploads parts of S3 multipart uploads for so many seconds each way."""
    table = Table(
        title="Parts",
        text=f"S3, parts of {part_bytes / _MIB:g} MiB over {_CONNECTIONS} connections, kept in memory.",
        columns=("ETags", "over", "MiB/s", "CPU s a GiB: server", "client", "cores: server", "client"),
    )
    for tls in (False, True):
        for opaque in (False, True):
            with session(large_bytes=1, tls=tls, opaque_etags=opaque) as started:
                upload_id = started.open_upload("parts")
                load = Load(
                    endpoint=started.testbed.s3_endpoint,
                    paths=tuple(
                        f"/{BUCKET}/parts?partNumber={number}&uploadId={upload_id}"
                        for number in range(1, _CONNECTIONS + 1)
                    ),
                    connections=_CONNECTIONS,
                    seconds=seconds,
                    method="PUT",
                    body_bytes=part_bytes,
                )
                started.measure(load)  # Memory is fresh, and takes longer.
                result = started.measure(load)
            outcome = result.outcome
            moved_bytes = part_bytes * len(outcome.total_s)
            table.add(
                "opaque" if opaque else "MD5",
                "HTTPS" if tls else "HTTP",
                thousands(moved_bytes / outcome.elapsed_s / _MIB),
                f"{result.server_cpu_s * _GIB / moved_bytes:.2f}",
                f"{outcome.cpu_s * _GIB / moved_bytes:.2f}",
                f"{result.server_cores:.2f}",
                f"{outcome.cpu_s / outcome.elapsed_s:.2f}",
            )
    return table
