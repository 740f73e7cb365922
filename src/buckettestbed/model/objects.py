"""Objects, open uploads and buckets as every dialect sees them: no HTTP, no XML, no network model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from buckettestbed.model.contents import Content
from buckettestbed.model.errors import UploadMissingError
from buckettestbed.model.names import ALL_NAMES, NamePage, Selection, SortedNames, list_names

__all__ = ["Attributes", "Bucket", "Check", "Part", "Session", "StoredObject", "Upload"]

_NOTHING: Mapping[str, str] = MappingProxyType({})


def _nothing() -> Mapping[str, str]:
    """Returns the one empty mapping that a million objects without metadata share."""
    return _NOTHING


@dataclass(frozen=True, kw_only=True, slots=True)
class Attributes:
    """What a writer says about an object beside its bytes; kept and returned unchanged.

    `headers` are the content headers by lower-case name, `metadata` the user's own; `checksums` are base64 texts by
    algorithm name, and `checksum_type` says whether they cover the whole object or its parts' checksums.
    `storage_class` is a label and has no effect.
    """

    headers: Mapping[str, str] = field(default_factory=_nothing)
    metadata: Mapping[str, str] = field(default_factory=_nothing)
    checksums: Mapping[str, str] = field(default_factory=_nothing)
    checksum_type: str = "FULL_OBJECT"
    storage_class: str = "STANDARD"


@dataclass(eq=False, kw_only=True, slots=True)
class StoredObject:
    """One version of one object. Never changed once published, save for `prepared`.

    `etag` is S3's: the MD5 in hexadecimal, or with a `-N` where the object was made of N others, or anything where
    `encryption` is `aws:kms`; see `md5`. `generation` is greater than that of every object published before, and 0
    until it is published; `metageneration` counts the changes of the attributes from 1. `part_sizes_bytes` are those of
    the parts that it was made of, empty where it was written whole, and `part_checksums` theirs in base64, by the
    algorithm that the upload asked for, empty where it asked for none. `prepared` are caches that belong to those who
    serve the object (response headers built once), by dialect.
    """

    key: str
    content: Content
    etag: str
    encryption: str = "AES256"
    modified_s: float
    created_s: float
    generation: int = 0
    metageneration: int = 1
    attributes: Attributes = field(default_factory=Attributes)
    part_sizes_bytes: tuple[int, ...] = ()
    part_checksums: tuple[str, ...] = ()
    prepared: dict[str, tuple[list[tuple[bytes, bytes]], bytes]] | None = None

    @property
    def size_bytes(self) -> int:
        """Length of the object."""
        return self.content.size_bytes

    @property
    def md5(self) -> bytes | None:
        """MD5 of the object, or None where nobody computed it."""
        return None if self.encryption == "aws:kms" or "-" in self.etag else bytes.fromhex(self.etag)


Check = Callable[[StoredObject | None], None]
"""A precondition: called with the current object, or None, right before a change; raises to prevent it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One part of an open upload."""

    number: int
    content: Content
    etag: str
    modified_s: float
    checksums: Mapping[str, str] = field(default_factory=_nothing)


@dataclass(eq=False, kw_only=True, slots=True)
class Upload:
    """An open multipart upload."""

    id: str
    key: str
    attributes: Attributes
    created_s: float
    checksum_algorithm: str | None = None
    parts: dict[int, Part] = field(default_factory=dict)


class Session(Protocol):
    """An upload that a dialect keeps open in a form of its own, as the admin route shows it."""

    @property
    def key(self) -> str:
        """Key of the object to be."""

    @property
    def created_s(self) -> float:
        """When it was opened, in seconds since the epoch."""

    @property
    def received_bytes(self) -> int:
        """Bytes that are stored so far."""

    def discard(self) -> None:
        """Frees what arrived."""


@dataclass(eq=False, kw_only=True, slots=True)
class Bucket:
    """A bucket: its objects by key, the sorted keys, its open multipart uploads and resumable sessions by id.

    `location` is the provider's word for where its creation asked it to be, empty where it asked for nothing.
    """

    name: str
    created_s: float
    location: str = ""
    objects: dict[str, StoredObject] = field(default_factory=dict)
    names: SortedNames = field(default_factory=SortedNames)
    uploads: dict[str, Upload] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)

    def list(
        self, *, prefix: str, delimiter: str, after: str, limit: int, selection: Selection = ALL_NAMES
    ) -> NamePage:
        """Returns one page of keys; see `list_names`."""
        return list_names(self.names, prefix=prefix, delimiter=delimiter, after=after, limit=limit, selection=selection)

    def upload(self, upload_id: str, key: str) -> Upload:
        """Returns the open upload with this id for this key; raises UploadMissingError."""
        upload = self.uploads.get(upload_id)
        if upload is None or upload.key != key:
            raise UploadMissingError(upload_id)
        return upload
