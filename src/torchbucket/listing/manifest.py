"""Listings kept in a file, so that a thousand ranks list once: Parquet, in any store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError
from torchbucket.listing.collect import list_objects
from torchbucket.listing.columns import Listing
from torchbucket.listing.manifest_file import SCHEMA_VERSION, ManifestError, decode, encode
from torchbucket.listing.summary import Summary
from torchbucket.public import public_in
from torchbucket.store import open_store
from torchbucket.uri import SCHEMES, Address, ObjectURI

__all__ = ["SCHEMA_VERSION", "Manifest", "ManifestError", "manifest_place"]

_DESCRIPTION: Final = ("root", "prefix", "made_at")


@public_in("torchbucket.listing")
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Manifest:
    """What was under a prefix at one time: names, sizes and, where kept, versions.

    Args:
        root: the bucket, or the directory of a ``file`` address.
        prefix: what every key begins with.
        made_at: when the listing was made, with its time zone.
        listing: the objects.
    """

    root: ObjectURI
    prefix: str
    made_at: datetime
    listing: Listing

    def __post_init__(self) -> None:
        if self.root.key:
            raise ConfigError(f"a manifest's root is a bucket or directory; got {str(self.root)!r}")
        if self.made_at.tzinfo is None:
            raise ConfigError("a manifest's made_at needs a time zone, such as datetime.now(UTC)")

    @classmethod
    def from_prefix(cls, uri: Address, *, config: StoreConfig | None = None, versions: bool = True) -> Self:
        """List what is under a prefix, now and in this process.

        Args:
            uri: the prefix's address.
            config: the store's settings.
            versions: keep the objects' versions, so that reads can be pinned to them.

        Raises:
            ConfigError: it is no address.
            StoreError: the listing failed.
        """
        location = ObjectURI.parse(uri)
        made_at = datetime.now(UTC)
        listing = list_objects(open_store(location, config), location.key, versions=versions)
        root = ObjectURI(scheme=location.scheme, bucket=location.bucket)
        return cls(root=root, prefix=location.key, made_at=made_at, listing=listing)

    @classmethod
    def read(cls, uri: Address, *, config: StoreConfig | None = None) -> Self:
        """Read a manifest from any store, or from a local path.

        Raises:
            ManifestError: the file is no manifest, is cut short or damaged, or is of a version not known here.
            StoreError: it could not be read.
            ImportError: pyarrow is not installed.
        """
        place = manifest_place(uri)
        data = open_store(place, config).read(place.key).data
        listing, described = decode(data, str(place))
        try:
            root, prefix, made_at = (described[name] for name in _DESCRIPTION)
            return cls(
                root=ObjectURI.parse_root(root),
                prefix=prefix,
                made_at=datetime.fromisoformat(made_at),
                listing=listing,
            )
        except (KeyError, ValueError) as error:
            raise ManifestError(
                f"read {place}: the manifest does not say well where its objects are ({error}); make it again with "
                "torchbucket manifest"
            ) from error

    def write(self, uri: Address, *, config: StoreConfig | None = None) -> None:
        """Write the manifest to any store, or to a local path; it appears whole or not at all.

        Raises:
            StoreError: it could not be written.
            ImportError: pyarrow is not installed.
        """
        place = manifest_place(uri)
        described = dict(zip(_DESCRIPTION, (self.root.root, self.prefix, self.made_at.isoformat()), strict=True))
        open_store(place, config).write(place.key, encode(self.listing, described))

    def summary(self) -> Summary:
        """Counts and sizes of what is listed."""
        return Summary.of(self.listing, prefix=self.prefix)

    def __repr__(self) -> str:
        return f"Manifest({self.root.root!r}, prefix={self.prefix!r}, {len(self.listing)} objects, {self.made_at})"


def manifest_place(uri: Address) -> ObjectURI:
    """Where a manifest's file is: an address, or a path on this machine, which may be a bare name."""
    if isinstance(uri, str) and "://" not in uri and uri.partition(":")[0] not in SCHEMES:
        uri = Path(uri)
    place = ObjectURI.parse(uri)
    if not place.key or place.key.endswith("/"):
        raise ConfigError(f"a manifest is one file, such as s3://bucket/train.parquet; got {str(place)!r}")
    return place
