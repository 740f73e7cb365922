"""Measure what measuring costs: the tables of docs/results/overhead.md.

    python utils/measure_overhead.py --into docs/results/overhead.md    # six minutes on two quiet cores
    python utils/measure_overhead.py --pairs 10 --only listing

Pairs of a measured and a bare pass of the same loop, each first in every other pair. The overhead is by how much more
time the measured one takes: the median over the pairs, with its interval at 95 %.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import yaml
from overhead_measurement.loops import Job, pairs
from result_pages import write_page

from bucketbench.clients.protocol import Target
from bucketbench.job.description import Component
from bucketbench.scenarios.dataset.job import DatasetJob, LoaderSettings
from bucketbench.scenarios.listing.job import ListingJob
from bucketbench.scenarios.listing.names import NamesSpec
from bucketbench.statistics import median, median_interval
from buckettestbed.launch import RunningTestbed, launch_testbed

ROOT = Path(__file__).resolve().parent.parent
BUCKET = "bucketbench"
LIMIT = 0.02
"""The most that measuring may take of the throughput. *Source*: ours, a tenth of what repeats of a job differ by."""

TEXT = """\
How much longer a loop takes because it is measured. Of two passes of one loop, one is the scenario's own measurement:
the clock around each fetch, the comparison of every sample or name with what it should be (of the content of samples
the share that is compared by default, `verify_share`), the records, and the thread that samples memory and processors.
The other is the same client, DataLoader and order with nothing around it, while the measurement's process stands still.
Each is the first of every other pair. Settings are those of the default sweeps (two workers, batches of 32, a network
within a region). The overhead is by how much longer the measured pass took: the median over the pairs, in brackets its
interval at 95 %, which is wide where passes of one loop differ by more than measuring costs, as on a busy machine."""


def main() -> int:
    """Measure, print the table, and say by the exit status whether every median is within the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40, help="of each loop (default: %(default)s)")
    parser.add_argument("--network", default="regional", help="the testbed's preset (default: %(default)s)")
    parser.add_argument("--only", choices=("dataset", "listing"), help="one of the scenarios")
    parser.add_argument("--into", type=Path, help="a page to write as well")
    arguments = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "testbed", "AWS_SECRET_ACCESS_KEY": "testbed"}
    lines = ["| loop | client | pairs | bare, s | overhead |", "| :-- | :-- | --: | --: | --: |"]
    print("\n".join(lines), flush=True)
    too_much = 0
    with tempfile.TemporaryDirectory() as folder, launch_testbed(buckets=[BUCKET]) as testbed:
        for number, (loop, job) in enumerate(jobs(testbed, Path(folder), arguments.only)):
            testbed.set_network(arguments.network)
            taken = pairs(job, Path(folder) / f"records-{number}", arguments.pairs)
            testbed.set_network("none")
            ratios = [measured_s / bare_s for measured_s, bare_s in taken]
            too_much += median(ratios) - 1 > LIMIT
            bare_s = median([bare_s for _, bare_s in taken])
            cells = [loop, job.client.name, str(len(taken)), f"{bare_s:.2f}", more(ratios)]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    if arguments.into is not None:
        command = f"python {' '.join(sys.argv)}"
        write_page(
            arguments.into, title="What measuring costs", text=TEXT, command=command, sections=["\n".join(lines)]
        )
    return 1 if too_much else 0


def more(ratios: list[float]) -> str:
    """By how much more the measured passes took: the median, and its interval."""
    interval = median_interval(ratios)
    return f"{median(ratios) - 1:+.1%} ({interval.low - 1:+.1%} to {interval.high - 1:+.1%})"


def jobs(testbed: RunningTestbed, folder: Path, only: str | None) -> Iterable[tuple[str, Job]]:
    """The loops, each with the objects that it reads put into the testbed."""
    if only != "listing":
        for what, count, size_bytes in (("objects of 100 KiB", 2_000, 100 << 10), ("objects of 8 MiB", 64, 8 << 20)):
            target = target_of(testbed, f"{size_bytes}/")
            samples = put(testbed, target, folder / f"{size_bytes}.jsonl", count, size_bytes)
            for name in ("torchbucket-map", "raw"):
                yield (
                    f"dataset, {what}",
                    dataset_job(client("dataset", name), target, samples, batch_size=32 if count > 64 else 4),
                )
    if only != "dataset":
        for name in ("torchbucket", "obstore"):
            yield "listing, 100,000 names", listing_job(testbed, client("listing", name), 100_000)


def target_of(testbed: RunningTestbed, prefix: str) -> Target:
    """A prefix of the testbed."""
    return Target(
        scheme="s3", bucket=BUCKET, prefix=prefix, endpoint=testbed.s3_endpoint, region="us-east-1", path_style=True
    )


def verify_share() -> float:
    """The share of the samples that a measured epoch compares whole, as it is configured."""
    return float(yaml.safe_load((ROOT / "conf" / "dataset.yaml").read_text(encoding="utf-8"))["verify_share"])


def client(scenario: str, name: str) -> Component:
    """A client as its file configures it."""
    fields = yaml.safe_load((ROOT / "conf" / scenario / "client" / f"{name}.yaml").read_text(encoding="utf-8"))
    return Component(name=name, target=fields["_target_"], options=fields["options"])


def dataset_job(component: Component, target: Target, samples: Path, *, batch_size: int) -> DatasetJob:
    """One epoch in two workers."""
    return DatasetJob(
        client=component, target=target, min_measured_s=0.0, admin_url=None, model=Component(
            name="none", target="bucketbench.models.none.NoModel"
        ), samples_file=str(samples), loader=LoaderSettings(
            num_workers=2, batch_size=batch_size, prefetch_factor=2, start_method="fork", persistent_workers=True,
            pin_memory=False, shuffle=False,
        ), epochs=1, warmup_samples=32, seed=0, device="cpu", local_copy=None,
        verify_share=verify_share(),
    )  # fmt: skip


def listing_job(testbed: RunningTestbed, component: Component, count: int) -> ListingJob:
    """One listing of so many names, which are put there, after one of ten names."""
    names = NamesSpec(count=count, shape="numbers", max_size_bytes=16)
    target, warmup = target_of(testbed, f"names-{count}/"), "few-names/"
    testbed.put_objects(BUCKET, names.objects(target.prefix))
    testbed.put_objects(BUCKET, [(f"{warmup}{number}", 1) for number in range(10)])
    return ListingJob(
        client=component, target=target, min_measured_s=0.0, admin_url=testbed.admin, names=names, passes=1,
        warmup_prefix=warmup,
    )  # fmt: skip


def put(testbed: RunningTestbed, target: Target, file: Path, count: int, size_bytes: int) -> Path:
    """Write objects of random bytes, and the list of them that the harness compares with."""
    import boto3
    import xxhash

    service = boto3.client("s3", endpoint_url=testbed.s3_endpoint, region_name="us-east-1")
    with file.open("w", encoding="utf-8") as lines:
        for number in range(count):
            key, body = f"{number:05}", os.urandom(size_bytes)
            service.put_object(Bucket=BUCKET, Key=target.prefix + key, Body=body)
            entry = {"key": key, "size_bytes": size_bytes, "xxh3_128": xxhash.xxh3_128_hexdigest(body)}
            lines.write(f"{json.dumps(entry)}\n")
    return file


if __name__ == "__main__":
    sys.exit(main())
