"""Where the tests of the file system work: one provider of a testbed."""

from __future__ import annotations

from dataclasses import dataclass

from buckettestbed.launch import RunningTestbed
from torchbucket import StoreConfig
from torchbucket.fsspec import BucketFileSystem


@dataclass(frozen=True)
class Place:
    """One provider, and a directory of its own in the bucket."""

    testbed: RunningTestbed
    protocol: str
    config: StoreConfig
    fs: BucketFileSystem
    path: str

    @property
    def uri(self) -> str:
        return f"{self.protocol}://{self.path}"

    def faults(self, **rule: object) -> None:
        self.testbed.set_faults([{"bucket": "data", **rule}])
