"""Data sets to benchmark with: real images of exact sizes, the same for the same seed, and a manifest to check by."""

from __future__ import annotations

from bucketbench.datagen.dataset import ensure_dataset, read_manifest
from bucketbench.datagen.errors import DatagenError
from bucketbench.datagen.manifest import Manifest, ManifestEntry, ManifestMember
from bucketbench.datagen.progress import Progress, ProgressReport, progress_on
from bucketbench.datagen.spec import DatasetSpec

__all__ = [
    "DatagenError",
    "DatasetSpec",
    "Manifest",
    "ManifestEntry",
    "ManifestMember",
    "Progress",
    "ProgressReport",
    "ensure_dataset",
    "progress_on",
    "read_manifest",
]
