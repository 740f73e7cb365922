"""A testbed that begins with many objects, put into the model itself because a million PUTs would take minutes.

    python -m testbed_measurement.many_names OBJECTS

prints one line of JSON when it serves, and ends with its standard input.
"""

import asyncio
import json
import os
import sys
import time

import psutil

from buckettestbed.gcs.service import GcsService
from buckettestbed.model.memory import MemoryHolder
from buckettestbed.model.objects import Attributes, Bucket, Buckets
from buckettestbed.network.model import NetworkModel
from buckettestbed.s3.service import S3Service
from buckettestbed.serving.application import Application
from buckettestbed.serving.dialect import Dialect
from buckettestbed.serving.server import listen, serve

BUCKET = "names"


def key(number: int) -> str:
    """Returns the name of an object: 28 bytes, a thousand in each folder."""
    return f"data/{number // 1000:08d}/sample-{number % 1000:07d}"


async def _fill(buckets: Buckets, bucket: Bucket, objects: int) -> None:
    for number in range(objects):
        incoming = buckets.holder.receive()
        incoming.write(b"x")
        received = await incoming.finish()
        buckets.put(
            bucket, key(number), content=received.content, etag=received.digests["md5"].hex(), attributes=Attributes()
        )


def main() -> None:
    """Fills the buckets and serves."""
    objects = int(sys.argv[1])
    buckets = Buckets(MemoryHolder())
    bucket = buckets.create_bucket(BUCKET)
    process, begun_s = psutil.Process(), time.perf_counter()
    before_bytes = process.memory_info().rss
    asyncio.run(_fill(buckets, bucket, objects))
    s3, gcs = listen("127.0.0.1", 0), listen("127.0.0.1", 0)
    dialects: dict[int, Dialect] = {
        s3.getsockname()[1]: S3Service(buckets, base_hosts=("localhost",)),
        gcs.getsockname()[1]: GcsService(buckets, base_hosts=("localhost",)),
    }
    told = {
        "s3_port": s3.getsockname()[1],
        "gcs_port": gcs.getsockname()[1],
        "pid": os.getpid(),
        "fill_s": time.perf_counter() - begun_s,
        "added_bytes": process.memory_info().rss - before_bytes,
    }
    serve(
        Application(buckets, dialects=dialects, network=NetworkModel()),
        [s3, gcs],
        ready=lambda: print(json.dumps(told), flush=True),
        with_parent=True,
    )


if __name__ == "__main__":
    main()
