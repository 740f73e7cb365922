"""What data sets over a listing have in common: the names, and how one is made of a prefix, objects or a manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

from torchbucket.config import StoreConfig
from torchbucket.datasets.compose.options import Compose
from torchbucket.datasets.compose.reading import check_compose
from torchbucket.datasets.options import settings_of
from torchbucket.datasets.settings import Select
from torchbucket.datasets.source import ObjectSource
from torchbucket.listing import KeyColumn, Listing
from torchbucket.uri import Address

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
    def _from_prefix(
        cls,
        uri: Address,
        transform: Callable[[Any], Any],
        options: Mapping[str, Any],
        *,
        select: Select | None,
        allow_empty: bool,
        none_selected: str | None = None,
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
        source = ObjectSource.under_prefix(
            uri,
            settings.config,
            select=select,
            none_selected=none_selected,
            allow_empty=allow_empty,
            versions=isinstance(settings.fetch, Compose),
            pinned=settings.pin_versions,
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
        source = ObjectSource.of_objects(uris, settings.config, pinned=settings.pin_versions)
        return cls(source, transform, settings)

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
        none_selected: str | None = None,
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
        source = ObjectSource.in_manifest(
            uri,
            settings.config,
            manifest_config=manifest_config,
            select=select,
            none_selected=none_selected,
            allow_empty=allow_empty,
            pinned=settings.pin_versions,
        )
        return cls(source, transform, settings)
