"""Data sets over the objects of a bucket, for ``torch.utils.data.DataLoader``."""

from __future__ import annotations

from torchbucket.datasets.iterable import IterableDataset
from torchbucket.datasets.map import MapDataset
from torchbucket.datasets.merging import merge_states
from torchbucket.datasets.sampler import ShardedSampler
from torchbucket.listing import KeyColumn, Listing

__all__ = ["IterableDataset", "KeyColumn", "Listing", "MapDataset", "ShardedSampler", "merge_states"]
