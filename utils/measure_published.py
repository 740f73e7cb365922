"""Measure what the README quotes: the pages of small objects, of large objects and of listings in docs/results/.

    python utils/measure_published.py small-objects multirun/published    # 25 minutes on two quiet cores
    python utils/measure_published.py listings multirun/published --only "S3" "Cloud Storage"
    python utils/measure_published.py large-objects multirun/published --report   # of the runs that are there

A page is a few sweeps of ``bucketbench run``, each with its command, the report's table and verdicts, and the ratios of
pairs of clients that the report does not name, by ``bucketbench compare``. A sweep that is there is not run again, but
completed where it was interrupted.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from result_pages import write_page

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "docs" / "results"


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A sweep, and whom it compares.

    Args:
        title: what the page calls it.
        overrides: the sweep's.
        clients: their names.
        pairs: clients of which the second is compared with the first, beside the report's own verdicts.
    """

    title: str
    overrides: tuple[str, ...]
    clients: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...] = ()

    @property
    def arguments(self) -> list[str]:
        """Of ``bucketbench run SCENARIO``."""
        return [f"client={','.join(self.clients)}", *self.overrides]

    @property
    def folder(self) -> str:
        """Where its results go."""
        return self.title.lower().replace(",", "").replace(" ", "-")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A page of docs/results/.

    Args:
        file: its name.
        title: its heading.
        text: what holds for all of it.
        scenario: what its sweeps are of.
        script: by which the README runs that scenario.
        sections: its sweeps.
    """

    file: str
    title: str
    text: str
    scenario: str
    script: str
    sections: tuple[Section, ...]


_SMALL: Final = ("data.num_samples=2000", "epochs=1")
_LARGE: Final = ("data=bytes_64mib", "dataloader.batch_size=4", "epochs=1", "warmup_samples=4")
_LARGE_CLIENTS: Final = (
    "torchbucket-map", "torchbucket-iterable", "obstore-split", "s3torchconnector-map-range",
    "s3torchconnector-iterable-range", "raw-split", "raw-split-iterable",
)  # fmt: skip
_LARGE_PAIRS: Final = (
    ("s3torchconnector-map-range", "torchbucket-map"),
    ("s3torchconnector-iterable-range", "torchbucket-iterable"),
)
_NAMES: Final = ("network=listing_50ms", "names.count=200k")

PAGES: Final = {
    "small-objects": Page(
        file="dataset-small-objects.md",
        title="2,000 objects of 100 KiB over a regional network",
        text="20 ms to the first byte, 100 MiB/s a connection, 800 MiB/s in all; batches of 32, repeats interleaved "
        "between the clients.\ns3torchconnector's readers and gcsfs as it is keep one request in flight in each "
        "worker, as the column *in flight*\nsays; that is where the factors against them come from.",
        scenario="dataset",
        script="run_dataset_benchmarks.sh",
        sections=(
            Section(
                title="S3, 2 workers",
                overrides=_SMALL,
                clients=(
                    "torchbucket-map", "torchbucket-iterable", "obstore-async", "s3torchconnector-map-tuned",
                    "s3torchconnector-iterable-tuned", "raw-iterable",
                ),
                pairs=(("s3torchconnector-map-tuned", "torchbucket-map"),),
            ),
            Section(
                title="S3, 8 workers",
                overrides=("dataloader.num_workers=8", *_SMALL),
                clients=(
                    "torchbucket-map", "torchbucket-iterable", "s3torchconnector-map-tuned",
                    "s3torchconnector-iterable-tuned", "raw-iterable",
                ),
            ),
            Section(
                title="Cloud Storage, 2 workers",
                overrides=("target=local_gs", *_SMALL),
                clients=(
                    "torchbucket-map", "torchbucket-iterable", "dataflux-map-tuned", "dataflux-iterable", "gcsfs",
                    "gcsfs-batch", "raw-iterable",
                ),
                pairs=(("dataflux-map-tuned", "torchbucket-map"), ("gcsfs", "torchbucket-map")),
            ),
            Section(
                title="S3, one process",
                overrides=("dataloader.num_workers=0", *_SMALL),
                clients=("torchbucket-map", "torchbucket-iterable", "obstore-async", "raw-iterable"),
            ),
            Section(
                title="S3 over TLS, 2 workers",
                overrides=("target.tls=true", *_SMALL),
                clients=("torchbucket-map", "torchbucket-iterable", "obstore-async"),
            ),
        ),
    ),
    "large-objects": Page(
        file="dataset-large-objects.md",
        title="32 objects of 64 MiB over a regional network",
        text="20 ms to the first byte, 100 MiB/s a connection, 800 MiB/s in all; S3, 2 workers, batches of 4, repeats "
        "interleaved between\nthe clients. torchbucket's budget for reading ahead is 256 MiB a worker.",
        scenario="dataset",
        script="run_dataset_benchmarks.sh",
        sections=(
            Section(title="HTTP", overrides=_LARGE, clients=_LARGE_CLIENTS, pairs=_LARGE_PAIRS),
            Section(title="TLS", overrides=("target.tls=true", *_LARGE), clients=_LARGE_CLIENTS, pairs=_LARGE_PAIRS),
        ),
    ),
    "listings": Page(
        file="listing.md",
        title="200,000 names, 50 ms a page",
        text="Pages of 1,000 names, repeats interleaved between the clients. `google-cloud-storage` asks for all "
        "fields, its default;\n`-fields` for names and sizes. `dataflux` lists with a process a core, `-processes` "
        "with 8.",
        scenario="listing",
        script="run_listing_benchmarks.sh",
        sections=(
            Section(
                title="S3",
                overrides=_NAMES,
                clients=("torchbucket", "torchbucket-sequential", "obstore", "obstore-arrow", "s3torchconnector",
                         "boto3"),
                pairs=(("boto3", "torchbucket"), ("s3torchconnector", "torchbucket")),
            ),
            Section(
                title="Cloud Storage",
                overrides=("target=local_gs", *_NAMES),
                clients=("torchbucket", "torchbucket-sequential", "dataflux", "dataflux-processes", "obstore-arrow",
                         "google-cloud-storage", "google-cloud-storage-fields"),
                pairs=(("google-cloud-storage", "torchbucket"), ("dataflux-processes", "torchbucket")),
            ),
            Section(
                title="S3, 1,000 names",
                overrides=("network=listing_50ms", "names.count=1000"),
                clients=("torchbucket", "obstore-arrow", "s3torchconnector", "boto3"),
                pairs=(("boto3", "torchbucket"),),
            ),
        ),
    ),
}  # fmt: skip


def main() -> int:
    """Run the sweeps that are missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", choices=list(PAGES))
    parser.add_argument("directory", type=Path, help="where the sweeps' results go, or are")
    parser.add_argument("--only", nargs="+", metavar="TITLE", help="sections by their titles; default: all")
    parser.add_argument("--report", action="store_true", help="run nothing, write the page of what is there")
    arguments = parser.parse_args()
    page = PAGES[arguments.page]
    sections = []
    for section in page.sections:
        place = arguments.directory.absolute() / arguments.page / section.folder
        if not (arguments.report or (arguments.only and section.title not in arguments.only)):
            sweep(page, section, place)
        if place.exists():
            sections += [f"## {section.title}", *told(page, section, place)]
    command = shlex.join(["python", *sys.argv])
    write_page(RESULTS / page.file, title=page.title, text=page.text, command=command, sections=sections)
    return 0


def sweep(page: Page, section: Section, place: Path) -> None:
    """Run or complete a sweep; end this program where it could not be run or a job failed."""
    command = ["run", page.scenario, *section.arguments, f"hydra.sweep.dir={place}"]
    if place.exists():
        command = ["resume", str(place)]
    ended = subprocess.run([sys.executable, "-m", "bucketbench.cli", *command], cwd=ROOT, check=False)
    if ended.returncode:
        sys.exit(ended.returncode)


def told(page: Page, section: Section, place: Path) -> list[str]:
    """The command of a sweep, what the report says of it, and the ratios of its pairs."""
    pairs = [("compare", f"{place}@{base}", f"{place}@{other}", "--markdown") for base, other in section.pairs]
    return [
        f"```console\n$ ./utils/{page.script} {' '.join(section.arguments)}\n```",
        output("report", "--markdown", str(place)),
        *(output(*arguments).replace(f"{place}@", "") for arguments in pairs),
    ]


def output(*arguments: str) -> str:
    """What a command of bucketbench prints."""
    command = [sys.executable, "-m", "bucketbench.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
