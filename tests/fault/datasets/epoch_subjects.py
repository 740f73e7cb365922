"""The data sets that the faults strike: small objects, large ones in ranges, tar shards, composed objects."""

from __future__ import annotations

import io
import random
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testbed_faults import impatient_config
from torch.utils.data import DataLoader

from buckettestbed import RunningTestbed
from torchbucket import IterableDataset, MapDataset, ObjectReader, StoreConfig
from torchbucket.datasets.compose import Compose
from torchbucket.datasets.tar import TarDataset, TarSample
from torchbucket.store import open_store

BUCKET = "data"
PART_BYTES = 5 << 20
PAGE = 10

SMALL = {f"small/{number:03}": random.Random(number).randbytes(3000 + number) for number in range(24)}
LARGE = {f"large/{number}": random.Random(100 + number).randbytes(2 * PART_BYTES + 1000) for number in range(2)}
MEMBERS = {f"{number:04}": random.Random(200 + number).randbytes(2000 + number) for number in range(18)}

Samples = list[tuple[str, bytes]]


def fill(testbed: RunningTestbed) -> None:
    """Write every object, by an undisturbed store."""
    store = open_store(f"s3://{BUCKET}", StoreConfig(endpoint=testbed.s3_endpoint, region="us-east-1", anonymous=True))
    for key, body in {**SMALL, **LARGE, **_shards()}.items():
        store.write(key, body)
    store.close()


def _shards() -> dict[str, bytes]:
    names = sorted(MEMBERS)
    found = {}
    for number in range(3):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as archive:
            for name in names[number * 6 : number * 6 + 6]:
                header = tarfile.TarInfo(f"{name}.bin")
                header.size = len(MEMBERS[name])
                archive.addfile(header, io.BytesIO(MEMBERS[name]))
        found[f"shards/{number:03}.tar"] = file.getvalue()
    return found


def content(reader: ObjectReader) -> tuple[str, bytes]:
    """The key and the whole content."""
    return reader.key, reader.read()


def member(sample: TarSample) -> tuple[str, bytes]:
    """The key and the content of a member of a shard."""
    return sample.key, bytes(sample["bin"])


def _map(root: str, config: StoreConfig) -> Samples:
    dataset = MapDataset.from_prefix(f"{root}/small/", config=config, transform=content)
    return dataset.__getitems__(list(range(len(dataset))))


def _iterable(root: str, config: StoreConfig) -> Samples:
    return list(IterableDataset.from_prefix(f"{root}/small/", config=config, transform=content))


def _workers(root: str, config: StoreConfig) -> Samples:
    dataset = IterableDataset.from_prefix(f"{root}/small/", config=config, transform=content, shuffle=True)
    loader: DataLoader[Any] = DataLoader(dataset, batch_size=None, num_workers=2)
    return [(key, body) for key, body in loader]


def _lazy(root: str, config: StoreConfig) -> Samples:
    return list(IterableDataset.from_prefix(f"{root}/small/", config=config, transform=content, fetch="lazy"))


def _large(root: str, config: StoreConfig) -> Samples:
    return list(IterableDataset.from_prefix(f"{root}/large/", config=config, transform=content))


def _tar(root: str, config: StoreConfig) -> Samples:
    return list(TarDataset.from_prefix(f"{root}/shards/", config=config, transform=member))


def _composed(root: str, config: StoreConfig) -> Samples:
    dataset = IterableDataset.from_prefix(f"{root}/small/", config=config, transform=content, fetch=Compose())
    return list(dataset)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One kind of data set on one provider, and what an epoch of it must yield."""

    scheme: str
    epoch: Callable[[str, StoreConfig], Samples]
    expected: Mapping[str, bytes]

    def run(self, testbed: RunningTestbed, *, deadline_s: float) -> Samples:
        """One epoch, the listing included."""
        endpoint = testbed.s3_endpoint if self.scheme == "s3" else testbed.gcs_endpoint
        return self.epoch(
            f"{self.scheme}://{BUCKET}", impatient_config(endpoint, deadline_s=deadline_s, list_page_size=PAGE)
        )


SUBJECTS: Mapping[str, Subject] = {
    "map (S3)": Subject(scheme="s3", epoch=_map, expected=SMALL),
    "iterable (S3)": Subject(scheme="s3", epoch=_iterable, expected=SMALL),
    "2 workers (S3)": Subject(scheme="s3", epoch=_workers, expected=SMALL),
    "lazy (S3)": Subject(scheme="s3", epoch=_lazy, expected=SMALL),
    "large (S3)": Subject(scheme="s3", epoch=_large, expected=LARGE),
    "tar (S3)": Subject(scheme="s3", epoch=_tar, expected=MEMBERS),
    "map (GCS)": Subject(scheme="gs", epoch=_map, expected=SMALL),
    "large (GCS)": Subject(scheme="gs", epoch=_large, expected=LARGE),
    "compose (GCS)": Subject(scheme="gs", epoch=_composed, expected=SMALL),
}
