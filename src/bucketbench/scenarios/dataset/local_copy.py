"""The same samples as plain files, for a client that reads a disk and no bucket."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bucketbench.clients.protocol import Target
from bucketbench.errors import UsageError
from bucketbench.scenarios.dataset.job import DatasetJob

__all__ = ["with_local_copy"]


def with_local_copy(job: DatasetJob, client: Any) -> Target:
    """The job's target, with a local directory of the samples where the client's class asks for one.

    The samples are made from the data set's description, which gives the same bytes, before anything is measured and
    only where they are not there yet. Two sweeps that need them at once wait for one another.
    """
    if not getattr(client, "needs_local_copy", False):
        return job.target
    copy = job.local_copy
    if copy is None:
        raise UsageError(
            f"{job.client.name} reads local files, and {job.target.uri} was not made here: leave it out, or take "
            "a data set that is made"
        )
    # Imported here: no other client's job should pay for the image libraries.
    from bucketbench.datagen import DatasetSpec, ensure_dataset

    directory = Path(copy.directory)
    directory.mkdir(parents=True, exist_ok=True)
    ensure_dataset(f"file://{directory.absolute()}", DatasetSpec.from_json(copy.spec), lock_directory=directory.parent)
    return replace(job.target, local_directory=copy.directory)
