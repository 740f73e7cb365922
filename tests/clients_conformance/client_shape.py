"""What every client under test is to the behaviours: one shape, with what it lacks and where it departs declared."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from wire import Wire

from buckettestbed import RunningTestbed

__all__ = ["PART_BYTES", "Bench", "Client", "Departure", "Described", "NoCallError", "Place"]

PART_BYTES = 5 << 20
"""The least that both providers take for a part that is not the last, and a multiple of GCS's 256 KiB."""


class NoCallError(Exception):
    """The client has no call for this, and its class says so."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a client works: endpoints, bucket, and the certificate authority that it is told to trust."""

    s3_endpoint: str
    gcs_endpoint: str
    bucket: str
    ca_certificate: Path | None = None

    @classmethod
    def of(cls, testbed: RunningTestbed, bucket: str) -> Place:
        """Returns a testbed's bucket."""
        return cls(
            s3_endpoint=testbed.s3_endpoint,
            gcs_endpoint=testbed.gcs_endpoint,
            bucket=bucket,
            ca_certificate=testbed.ca_certificate,
        )


@dataclass(frozen=True, kw_only=True)
class Described:
    """What a writer may say about an object."""

    content_type: str
    metadata: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A client in a bucket of its own, and the truth about that bucket by requests that no client made."""

    client: Client
    place: Place
    wire: Wire
    testbed: RunningTestbed

    def open_uploads(self) -> list[dict[str, Any]]:
        """Returns what is neither finished nor given up in the bucket: uploads in parts, and resumable sessions."""
        return [upload for upload in self.testbed.open_uploads() if upload["bucket"] == self.place.bucket]

    def with_bucket(self, bucket: str) -> Client:
        """Returns the same client in another bucket."""
        return type(self.client)(replace(self.place, bucket=bucket))


@dataclass(frozen=True, kw_only=True)
class Departure:
    """Where the client itself, not the testbed, does something else than the behaviour asks for.

    `says` is the sentence in the table; `shown` asserts that the client does just that.
    """

    says: str
    shown: Callable[[Bench], None]


class Client:
    """One client. A subclass overrides what the client can do, and names in `lacks` what it cannot, with the reason.

    `errors` has, by kind, the type of the exception with which the client tells of a refusal, and a pattern that its
    name and text hold; `departs` is by behaviour.
    """

    name: ClassVar[str]
    starts_at_name: ClassVar[bool] = False
    """Whether `list_after` has the name itself, as GCS's startOffset does."""
    lacks: ClassVar[Mapping[str, str]] = {}
    departs: ClassVar[Mapping[str, Departure]] = {}
    errors: ClassVar[Mapping[str, tuple[type[Exception], str]]] = {}

    def __init__(self, place: Place) -> None:
        self.bucket = place.bucket

    @contextlib.contextmanager
    def refusal(self, kind: str) -> Iterator[None]:
        """A block that must end with the client's own error of a kind."""
        try:
            yield
        except NoCallError:
            raise
        except Exception as error:
            expected, pattern = self.errors.get(kind, ((), ""))
            if not isinstance(error, expected) or not re.search(pattern, f"{type(error).__name__}: {error}"):
                raise AssertionError(f"{self.name} told {error!r} of {kind!r}; its class expects {expected}") from error
        else:
            raise AssertionError(f"{self.name} told of no error where one of {kind!r} was due")

    def _none(self, call: str) -> NoReturn:
        reason = self.lacks.get(call)
        if reason is None:
            raise AssertionError(f"{self.name} neither has {call} nor says in `lacks` why not")
        raise NoCallError(reason)

    def trusting(self, place: Place) -> Client:
        """Returns the client elsewhere, told to trust that place's authority, and no other that the system does not."""
        if "trusting" in self.lacks:
            self._none("trusting")
        return type(self)(place)

    # Whole objects.

    def save(self, key: str, body: bytes) -> None:
        """Writes an object the way the client writes small ones."""
        self._none("save")

    def load(self, key: str) -> bytes:
        """Reads an object."""
        self._none("load")

    def save_large(self, key: str, body: bytes) -> None:
        """Writes an object in parts of PART_BYTES, or through a resumable session."""
        self._none("save_large")

    def load_large(self, key: str) -> bytes:
        """Reads a large object the way the client does that, if it has one of its own."""
        return self.load(key)

    def stream(self, key: str, pieces: Iterable[bytes]) -> None:
        """Writes an object through the client's file-like writer, as a `with` block."""
        self._none("stream")

    def abandon(self, key: str, body: bytes) -> None:
        """Starts to write a large object, sends PART_BYTES or more, and gives up by the client's own means."""
        self._none("abandon")

    def size(self, key: str) -> int:
        """Returns an object's length in bytes without reading it."""
        self._none("size")

    def delete(self, key: str) -> None:
        """Removes an object."""
        self._none("delete")

    def delete_many(self, keys: Sequence[str]) -> None:
        """Removes objects with as few requests as the client can."""
        self._none("delete_many")

    # Ranges, half-open.

    def load_range(self, key: str, start: int, stop: int) -> bytes:
        """Reads bytes `start` to `stop`."""
        self._none("load_range")

    def load_tail(self, key: str, length_bytes: int) -> bytes:
        """Reads the last bytes by a suffix range, not knowing the length."""
        self._none("load_tail")

    # Listings.

    def listing(self, prefix: str) -> list[tuple[str, int]]:
        """Returns names and sizes of all that begins with a prefix."""
        self._none("listing")

    def list_folder(self, prefix: str) -> tuple[list[str], list[str]]:
        """Returns names and common prefixes directly under a prefix that is empty or ends with `/`."""
        self._none("list_folder")

    def list_after(self, name: str) -> list[str]:
        """Returns the names after a name, the provider's way: S3 without that name, GCS with it."""
        self._none("list_after")

    # On the server.

    def copy(self, source: str, target: str) -> None:
        """Copies an object without reading it."""
        self._none("copy")

    def move(self, source: str, target: str) -> None:
        """Renames an object."""
        self._none("move")

    def compose(self, sources: Sequence[str], target: str) -> None:
        """Joins objects without reading them."""
        self._none("compose")

    # Conditions.

    def version(self, key: str) -> str:
        """Returns what stands for this version of the object: its ETag, or its generation."""
        self._none("version")

    def create(self, key: str, body: bytes) -> None:
        """Writes an object only where there is none."""
        self._none("create")

    def replace(self, key: str, body: bytes, version: str) -> None:
        """Writes an object only over this version."""
        self._none("replace")

    def load_version(self, key: str, version: str) -> bytes:
        """Reads an object only in this version."""
        self._none("load_version")

    # What is said about objects.

    def save_described(self, key: str, body: bytes, described: Described) -> None:
        """Writes an object with a content type and user metadata."""
        self._none("save_described")

    def described(self, key: str) -> Described:
        """Returns the content type and the user metadata; from metadata only what the writer gave."""
        self._none("described")

    def save_mislabelled(self, key: str, body: bytes, labelled: bytes) -> None:
        """Writes an object with the checksum of other bytes."""
        self._none("save_mislabelled")

    def digests(self, key: str) -> Mapping[str, str]:
        """Returns the digests that the client tells of, base64: some of `md5`, `crc32c`."""
        self._none("digests")

    # Addresses that need no credentials.

    def signed_get(self, key: str) -> str:
        """Returns an address that reads the object."""
        self._none("signed_get")

    def signed_put(self, key: str) -> str:
        """Returns an address that writes the object."""
        self._none("signed_put")
