"""What is under a prefix, in columns: names and sizes of millions of objects in a few flat arrays."""

from __future__ import annotations

from torchbucket.listing.collect import list_objects
from torchbucket.listing.columns import UNKNOWN_SIZE, KeyColumn, Listing, VersionColumn

__all__ = ["UNKNOWN_SIZE", "KeyColumn", "Listing", "VersionColumn", "list_objects"]
