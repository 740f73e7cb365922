"""What is under a prefix, in columns: names and sizes of millions of objects in a few flat arrays."""

from __future__ import annotations

from torchbucket.listing.collect import list_objects
from torchbucket.listing.columns import UNKNOWN_SIZE, KeyColumn, Listing, VersionColumn
from torchbucket.listing.manifest import Manifest, ManifestError
from torchbucket.listing.summary import PrefixTotal, SizeBin, Summary

__all__ = [
    "UNKNOWN_SIZE",
    "KeyColumn",
    "Listing",
    "Manifest",
    "ManifestError",
    "PrefixTotal",
    "SizeBin",
    "Summary",
    "VersionColumn",
    "list_objects",
]
