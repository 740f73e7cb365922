"""What a client under comparison provides, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["DatasetClient", "Target"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where the data of a job lies.

    Credentials are never part of it: each client finds them as its users' programs do, in the environment or a profile.

    Args:
        scheme: ``s3``, ``gs`` or ``file``.
        bucket: the bucket's name, empty for ``file``.
        prefix: plain text that begins the key of every sample and of nothing else, for example ``datasets/jpeg/``.
        endpoint: URL of the service, None for the provider's own.
        region: the provider's region, None to let the client find it.
        path_style: whether the bucket is part of the URL's path, as local servers need it.
        anonymous: whether requests are unsigned.
        ca_bundle: PEM file with the certificates to trust, None for the client's default.
        local_directory: directory with the same samples as plain files, present when the client asked for it.
    """

    scheme: str
    bucket: str
    prefix: str
    endpoint: str | None = None
    region: str | None = None
    path_style: bool = False
    anonymous: bool = False
    ca_bundle: str | None = None
    local_directory: str | None = None

    @property
    def uri(self) -> str:
        """The prefix as one address, such as ``s3://bucket/datasets/jpeg/``."""
        return f"{self.scheme}://{self.bucket}/{self.prefix}"


class DatasetClient(Protocol):
    """A way of reading a data set: a small class, built from the ``options`` of its configuration.

    ``dataset`` returns a torch data set, map or iterable, whose samples are pairs of the object's key, relative to the
    target's prefix, and its whole content as ``bytes`` (or any other bytes-like object); or what else its configuration
    says by ``samples`` and ``decoded`` (see `bucketbench.scenarios.dataset.sample_checks`). It runs in the measured
    process and may list the bucket: its time is recorded as indexing. An iterable one shares its samples out between
    DataLoader workers itself.

    A client whose library has a batch sampler of its own defines ``batch_sampler(batches)`` as well: it gets the job's
    batches of indices, an iterable with a length that is iterated anew each pass, and returns what the DataLoader of a
    map data set takes in their place. The batches and their order must stay the same.

    A class whose library does not survive a fork sets ``fork_safe = False``, and gets workers from a fork server.

    A class that reads local files instead of a bucket sets ``needs_local_copy = True``.

    What decides whether its figures are valid, a client of any scenario states by attributes: ``reads_through`` is
    ``disk`` for one that reads local files and ``mount`` for one that reads a mounted bucket, ``expects`` is
    ``compose`` for one that has the server join objects, and ``fallback`` says why it takes another path than its own,
    None where it does not.
    """

    def dataset(self, target: Target) -> Any:
        """A ``torch.utils.data.Dataset`` or ``IterableDataset`` over every sample of the target."""
        ...
