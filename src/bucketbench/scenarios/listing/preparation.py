"""Puts the objects there that a run of the listing scenario lists, and describes its jobs to measured processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import xxhash

from bucketbench.datagen.named_objects import ensure_objects, is_empty
from bucketbench.errors import PreflightError
from bucketbench.scenarios.listing.job import ListingJob
from bucketbench.scenarios.listing.names import NamesSpec
from bucketbench.scenarios.listing.settings import ListingSettings
from bucketbench.scenarios.scenario import Places, write_options

__all__ = ["ListingPreparation"]

_WARMUP_NAMES: Final = NamesSpec(count=10, shape="numbers", max_size_bytes=1)


class ListingPreparation:
    """The testbed is given the names by its admin route; a real bucket has them, or has them written when asked.

    Args:
        directory: the run's own; what was put there is noted below it.
        places: where the objects lie.
    """

    def __init__(self, directory: Path, places: Places, /) -> None:
        self._directory = directory
        self._places = places

    def prepare(self, settings: ListingSettings) -> None:
        """Put the job's objects there, or make sure that there are some."""
        target, testbed = self._places.target(settings), self._places.testbed(settings)
        wanted = {settings.prefix: settings.names}
        if settings.warmup_prefix is not None:
            wanted[settings.warmup_prefix] = _WARMUP_NAMES
        for prefix, names in wanted.items():
            # A run that is resumed has another testbed, which may have been given the same port.
            server = (target.endpoint, None if testbed is None else testbed.pid)
            place = xxhash.xxh3_64_hexdigest(json.dumps((*server, target.bucket, prefix)).encode())
            made = self._directory / "names" / place
            if made.exists():
                continue
            if testbed is None:
                self._find(settings, prefix, names)
            else:
                testbed.put_objects(target.bucket, names.objects(prefix))
            made.parent.mkdir(exist_ok=True)
            made.touch()

    def job(self, settings: ListingSettings) -> ListingJob:
        """The job."""
        testbed = self._places.testbed(settings)
        return ListingJob(
            client=settings.client,
            target=self._places.target(settings),
            min_measured_s=settings.config["min_measured_s"],
            admin_url=None if testbed is None else testbed.admin,
            names=settings.names,
            passes=None if settings.config["passes"] == "auto" else settings.config["passes"],
            warmup_prefix=settings.warmup_prefix,
        )

    def _find(self, settings: ListingSettings, prefix: str, names: NamesSpec) -> None:
        target = self._places.target(settings)
        uri = f"{target.scheme}://{target.bucket}/{prefix}"
        options = write_options(settings, target)
        if settings.config["names"]["generate"]:
            ensure_objects(uri, names.objects(prefix), **options)
        elif is_empty(uri, **options):
            raise PreflightError(
                f"{uri} has no object, and the scenario lists {names.count:,} there: names.generate=true writes them "
                "(each is a PUT request that the provider charges for)"
            )
