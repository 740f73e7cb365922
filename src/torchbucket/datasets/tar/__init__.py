"""Data sets over tar shards, the format of WebDataset."""

from __future__ import annotations

from torchbucket.datasets.tar.dataset import TarDataset
from torchbucket.datasets.tar.names import expand_braces
from torchbucket.datasets.tar.sample import TarSample, sample_dict

__all__ = ["TarDataset", "TarSample", "expand_braces", "sample_dict"]
