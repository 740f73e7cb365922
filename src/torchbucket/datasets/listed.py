"""What data sets over a listing have in common: the names, and how one is made of a prefix, objects or a manifest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

from torchbucket.config import StoreConfig
from torchbucket.datasets.compose.options import Compose
from torchbucket.datasets.compose.reading import check_compose
from torchbucket.datasets.options import settings_of
from torchbucket.datasets.settings import Select
from torchbucket.datasets.source import NONE_SELECTED, ObjectSource, nothing_found
from torchbucket.errors import ConfigError
from torchbucket.listing import KeyColumn, Listing, Manifest, list_objects
from torchbucket.store.protocol import ObjectInfo
from torchbucket.store.shared import shared_store
from torchbucket.uri import Address, ObjectURI

__all__ = ["ListedDataset"]


class ListedDataset:
    """Part of the class of each data set that has a listing.

    The constructors' types differ from class to class, so each class writes them down. What they do, and what ``help``
    says of their arguments (``shows_options``), is here.

    Args:
        source: the objects.
        transform: makes a sample.
        settings: how to read.
    """

    _settings_type: ClassVar[type[Any]]

    def __init__(self, source: ObjectSource, transform: Callable[[Any], Any], settings: Any) -> None:
        if isinstance(settings.fetch, Compose):
            check_compose(source)
        self._source = source
        self._transform = transform
        self._settings = settings

    @property
    def keys(self) -> KeyColumn:
        """The objects' names in the listing's order, over all ranks and workers."""
        return self._source.listing.keys

    @property
    def listing(self) -> Listing:
        """The objects' names and sizes in columns, over all ranks and workers."""
        return self._source.listing

    @classmethod
    def _selection(cls, select: Select | None) -> tuple[Select | None, str]:
        """What keeps objects, and what the error says where it kept none of ``{seen}`` objects."""
        return select, NONE_SELECTED

    @classmethod
    def _from_prefix(
        cls,
        uri: Address,
        transform: Callable[[Any], Any],
        options: Mapping[str, Any],
        *,
        select: Select | None,
        allow_empty: bool,
    ) -> Self:
        """List a prefix.

        Args:
            uri: such as ``s3://bucket/train/``. Plain text: ``s3://bucket/train`` also means ``training-notes.txt``.
            transform: makes a sample of an open object, by default its content as ``bytes``; in a ``TarDataset`` of a
                ``TarSample``, by default a dictionary of the members' content by extension, with ``__key__`` and
                ``__url__``.
            select: keeps the objects for which it is true, such as ``lambda info: info.key.endswith(".jpg")``; a
                ``TarDataset`` keeps those whose names end with ``.tar``, unless told. Called at construction only.
            allow_empty: accept that there is no object; in a ``TarDataset`` also that no sample is in those that a
                reader gets.
            options: see below.

        Raises:
            ConfigError: the address or a setting is wrong.
            NotFoundError: no bucket, or no object under the prefix.
            StoreError: the listing failed.
        """
        settings = settings_of(cls._settings_type, options, cls, "from_prefix")
        location = ObjectURI.parse(uri)
        store = shared_store(location, settings.config)
        select, none_selected = cls._selection(select)
        seen = 0

        def counted(info: ObjectInfo) -> bool:
            nonlocal seen
            seen += 1
            return select is None or select(info)

        listing = list_objects(
            store,
            location.key,
            select=select and counted,  # no object is described one by one where nobody looks at it
            versions=settings.pin_versions or isinstance(settings.fetch, Compose),
        )
        if not listing and not allow_empty:
            raise nothing_found(str(location), seen, none_selected)
        source = ObjectSource(
            replace(location, key=""),
            settings.config,
            listing,
            prefix=location.key,
            pinned=settings.pin_versions,
            allow_empty=allow_empty,
            store=store,
        )
        return cls(source, transform, settings)

    @classmethod
    def _from_objects(
        cls, uris: Iterable[Address], transform: Callable[[Any], Any], options: Mapping[str, Any]
    ) -> Self:
        """Take objects by their addresses.

        Args:
            uris: at least one, such as ``s3://bucket/train/000.jpg``; for a ``TarDataset`` also a pattern such as
                ``s3://bucket/train-{000000..000146}.tar`` (see ``expand_braces``). In a list braces mean themselves.
            transform: see ``from_prefix``.
            options: see below.

        Raises:
            ConfigError: no address, one that names no object, or addresses in more than one bucket.
        """
        settings = settings_of(cls._settings_type, options, cls, "from_objects")
        if settings.pin_versions:
            raise ConfigError(
                "from_objects knows no versions to pin: make the data set by from_prefix or from_manifest"
            )
        if isinstance(uris, str | bytes | os.PathLike | ObjectURI) or not isinstance(uris, Iterable):
            raise ConfigError(f"from_objects takes several addresses, such as ['s3://bucket/key']; got {uris!r}")
        locations = [ObjectURI.parse(uri) for uri in uris]
        if not locations:
            raise ConfigError("from_objects needs the address of at least one object; got none")
        root = replace(locations[0], key="")
        for location in locations:
            if not location.key:
                raise ConfigError(f"from_objects needs the addresses of objects; {str(location)!r} has no key")
            if location.root != root.root:
                raise ConfigError(
                    f"the objects of one data set are in one bucket; got {root.root} and {location.root}. Make a data "
                    "set for each bucket"
                )
        listing = Listing.of_keys([location.key for location in locations])
        return cls(ObjectSource(root, settings.config, listing), transform, settings)

    @classmethod
    def _from_manifest(
        cls,
        uri: Address,
        transform: Callable[[Any], Any],
        options: Mapping[str, Any],
        *,
        select: Select | None,
        allow_empty: bool,
        manifest_config: StoreConfig | None,
    ) -> Self:
        """Take the objects that a manifest lists.

        Args:
            uri: the manifest's address or local path; the objects are where it says.
            transform: see ``from_prefix``.
            select: see ``from_prefix``.
            allow_empty: see ``from_prefix``.
            manifest_config: how to reach the manifest; None means ``config``.
            options: see below.

        Raises:
            ConfigError: the address or a setting is wrong, or the versions to pin are not in the manifest.
            ManifestError: the file is no manifest, damaged, or of an unknown version.
            NotFoundError: no manifest, or no object in it.
            StoreError: the manifest could not be read.
        """
        settings = settings_of(cls._settings_type, options, cls, "from_manifest")
        manifest = Manifest.read(uri, config=manifest_config or settings.config)
        select, none_selected = cls._selection(select)
        listing = manifest.listing if select is None else manifest.listing.selected(select)
        if not listing and not allow_empty:
            raise nothing_found(str(uri), len(manifest.listing), none_selected, "the manifest lists no object")
        source = ObjectSource(
            manifest.root,
            settings.config,
            listing,
            prefix=manifest.prefix,
            pinned=settings.pin_versions,
            allow_empty=allow_empty,
        )
        return cls(source, transform, settings)
