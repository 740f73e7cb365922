"""All buckets of a testbed, and every change of them.

A dialect (S3 here, GCS beside it) translates requests into calls of `Buckets` and its errors into the provider's own.
Everything runs on one event loop; a precondition and the change that depends on it happen without an `await` between,
so a conditional write is atomic.
"""

import errno
import re
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from buckettestbed.model.contents import Content, Incoming, Received
from buckettestbed.model.errors import (
    BucketExistsError,
    BucketMissingError,
    BucketNotEmptyError,
    InvalidBucketNameError,
    ObjectChangedError,
    UploadMissingError,
)
from buckettestbed.model.names import SortedNames
from buckettestbed.model.objects import Attributes, Bucket, Check, Part, StoredObject, Upload

__all__ = ["Buckets", "Storage"]

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_BUCKET_NAME = re.compile(
    r"(?=.{3,63}\Z)(?!\d+\.\d+\.\d+\.\d+\Z)[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?)*\Z"
)
"""*Source*: Amazon S3 bucket naming rules, and Cloud Storage, bucket naming requirements: 3 to 63 of a-z 0-9 . -, no
address of IPv4 form; between dots the labels of a host's name, which begin and end with a letter or a digit. The
underscore is Cloud Storage's alone."""


class Storage(Protocol):
    """Where bytes are kept: in memory, or in a directory. Knows nothing of listing, uploads or protocols."""

    @property
    def place(self) -> str:
        """Where that is, for messages."""

    def load(self) -> Iterable[tuple[str, float, str, Iterable[StoredObject]]]:
        """Yields the buckets that exist from before: name, creation time, location and objects."""

    def create_bucket(self, name: str, location: str) -> None:
        """Makes room for a bucket's objects."""

    def delete_bucket(self, name: str) -> None:
        """Removes an empty bucket."""

    def receive(self, algorithms: Collection[str]) -> Incoming:
        """Starts to take a body in, of which these digests are wanted, CRC-32C among them."""

    async def join(self, contents: Sequence[Content]) -> Content:
        """Returns one content that is these, one after another. The originals may be released afterwards."""

    def publish(self, bucket: str, found: StoredObject) -> None:
        """Makes an object durable under its key, at once or not at all."""

    def remove(self, bucket: str, key: str) -> None:
        """Removes what was published under a key."""

    def close(self) -> None:
        """Ends use; unfinished bodies are gone afterwards."""


class Buckets:
    """All buckets of one testbed. Not thread-safe: one event loop owns it.

    Args:
        storage: where bytes are kept.
        opaque_etags: whether what is written has ETags that tell nothing of its bytes, as S3 has them for objects under
            a KMS key. MD5 takes about 1.8 processor seconds a GiB; it is not computed then.
    """

    def __init__(self, storage: Storage, *, opaque_etags: bool = False) -> None:
        self.storage = storage
        self.encryption = "aws:kms" if opaque_etags else "AES256"
        self._digests = ("crc32c",) if opaque_etags else ("crc32c", "md5")
        self._buckets: dict[str, Bucket] = {}
        self._generation = 0
        for name, created_s, location, objects in storage.load():
            by_key = {found.key: found for found in objects}
            self._generation = max([self._generation, *(found.generation for found in by_key.values())])
            self._buckets[name] = Bucket(
                name=name, created_s=created_s, location=location, objects=by_key, names=SortedNames(by_key)
            )

    def __iter__(self) -> Iterator[Bucket]:
        return iter(sorted(self._buckets.values(), key=lambda bucket: bucket.name))

    def find(self, name: str) -> Bucket | None:
        """Returns the bucket, or None."""
        return self._buckets.get(name)

    def bucket(self, name: str) -> Bucket:
        """Returns the bucket; raises BucketMissingError."""
        found = self._buckets.get(name)
        if found is None:
            raise BucketMissingError(name)
        return found

    def create_bucket(self, name: str, *, location: str = "") -> Bucket:
        """Makes an empty bucket; raises InvalidBucketNameError or BucketExistsError.

        Args:
            name: its name.
            location: where the provider was asked to make it; a label without effect.
        """
        if not _BUCKET_NAME.match(name):
            raise InvalidBucketNameError(name)
        if name in self._buckets:
            raise BucketExistsError(name)
        self.storage.create_bucket(name, location)
        bucket = self._buckets[name] = Bucket(name=name, created_s=time.time(), location=location)
        return bucket

    def delete_bucket(self, name: str) -> None:
        """Removes an empty bucket and its open uploads; raises BucketMissingError or BucketNotEmptyError."""
        bucket = self.bucket(name)
        if bucket.objects:
            raise BucketNotEmptyError(name)
        for upload_id in list(bucket.uploads):
            self._drop_upload(bucket, upload_id)
        for session in bucket.sessions.values():
            session.discard()
        bucket.sessions.clear()
        self.storage.delete_bucket(name)
        del self._buckets[name]

    def no_room(self, error: Exception) -> str | None:
        """Returns what to tell a client whose request failed since there is no room left; None for other failures."""
        if not isinstance(error, OSError) or error.errno not in _NO_ROOM:
            return None
        return f"The testbed keeps objects in {self.storage.place}, and has no room left there: {error.strerror}."

    def receive(self, *algorithms: str) -> Incoming:
        """Starts to take a body in, of which these digests are wanted beside those that all objects have."""
        return self.storage.receive({*self._digests, *algorithms})

    def etag(self, received: Received) -> str:
        """Returns the ETag of what arrived."""
        return uuid.uuid4().hex if self.encryption == "aws:kms" else received.digests["md5"].hex()

    def put(
        self,
        bucket: Bucket,
        key: str,
        *,
        content: Content,
        etag: str,
        attributes: Attributes,
        encryption: str | None = None,
        part_sizes_bytes: tuple[int, ...] = (),
        part_checksums: tuple[str, ...] = (),
        check: Check | None = None,
    ) -> StoredObject:
        """Publishes an object under a key, replacing any there, if `check` does not raise.

        `encryption` is that of an object whose ETag this one has too; None for what is written anew. The content is
        released when `check` raises or the bucket was deleted meanwhile.
        """
        try:
            if self._buckets.get(bucket.name) is not bucket:
                raise BucketMissingError(bucket.name)
            if check is not None:
                check(bucket.objects.get(key))
            now_s = time.time()
            found = StoredObject(
                key=key,
                content=content,
                etag=etag,
                encryption=encryption or self.encryption,
                modified_s=now_s,
                created_s=now_s,
                generation=self._next_generation(now_s),
                attributes=attributes,
                part_sizes_bytes=part_sizes_bytes,
                part_checksums=part_checksums,
            )
            self.storage.publish(bucket.name, found)
        except BaseException:
            content.release()
            raise
        bucket.objects[key] = found
        bucket.names.add(key)
        return found

    def _next_generation(self, now_s: float) -> int:
        """Returns microseconds since the epoch, made to grow. *Source*: what GCS's generations look like."""
        self._generation = max(self._generation + 1, int(now_s * 1e6))
        return self._generation

    async def update(
        self, bucket: Bucket, found: StoredObject, attributes: Attributes, *, check: Check | None = None
    ) -> StoredObject:
        """Publishes the same bytes and generation with other attributes, its metageneration one greater.

        Raises what `check` raises, or ObjectChangedError where `found` is no longer the current object. The bytes are
        copied where the storage keeps files.
        """
        content = await self.storage.join([found.content])
        try:
            current = bucket.objects.get(found.key)
            if check is not None:
                check(current)
            if current is not found:
                raise ObjectChangedError(found.key)
            updated = replace(
                found,
                content=content,
                attributes=attributes,
                modified_s=time.time(),
                metageneration=found.metageneration + 1,
                prepared=None,
            )
            self.storage.publish(bucket.name, updated)
        except BaseException:
            if content is not found.content:
                content.release()
            raise
        bucket.objects[found.key] = updated
        return updated

    def delete(self, bucket: Bucket, key: str, *, check: Check | None = None) -> bool:
        """Removes an object if `check` does not raise; returns whether there was one."""
        current = bucket.objects.get(key)
        if check is not None:
            check(current)
        if current is None:
            return False
        self.storage.remove(bucket.name, key)
        del bucket.objects[key]
        bucket.names.discard(key)
        return True

    def create_upload(
        self, bucket: Bucket, key: str, *, attributes: Attributes, checksum_algorithm: str | None = None
    ) -> Upload:
        """Opens a multipart upload."""
        upload = Upload(
            id=uuid.uuid4().hex,
            key=key,
            attributes=attributes,
            created_s=time.time(),
            checksum_algorithm=checksum_algorithm,
        )
        bucket.uploads[upload.id] = upload
        return upload

    def put_part(self, bucket: Bucket, upload: Upload, part: Part) -> None:
        """Adds a part to an open upload, replacing one of the same number; raises UploadMissingError when it was closed
        meanwhile."""
        if bucket.uploads.get(upload.id) is not upload:
            part.content.release()
            raise UploadMissingError(upload.id)
        replaced = upload.parts.get(part.number)
        upload.parts[part.number] = part
        if replaced is not None:
            replaced.content.release()

    async def complete_upload(
        self,
        bucket: Bucket,
        upload: Upload,
        parts: Sequence[Part],
        *,
        etag: str,
        attributes: Attributes,
        check: Check | None = None,
    ) -> StoredObject:
        """Publishes the parts, in the order given, as one object and closes the upload.

        Nothing changes when `check` raises: the upload stays open.
        """
        if check is not None:  # Before the bytes are joined, to refuse early; and again when it is published.
            check(bucket.objects.get(upload.key))
        content = await self.storage.join([part.content for part in parts])
        if bucket.uploads.get(upload.id) is not upload:
            content.release()
            raise UploadMissingError(upload.id)
        algorithm = upload.checksum_algorithm or ""
        # Not where a part, or the end of the upload, came by another API than its beginning.
        kept = algorithm in attributes.checksums and all(algorithm in part.checksums for part in parts)
        found = self.put(
            bucket,
            upload.key,
            content=content,
            etag=etag,
            attributes=attributes,
            part_sizes_bytes=tuple(part.content.size_bytes for part in parts),
            part_checksums=tuple(part.checksums[algorithm] for part in parts) if kept else (),
            check=check,
        )
        self._drop_upload(bucket, upload.id)
        return found

    def abort_upload(self, bucket: Bucket, upload: Upload) -> None:
        """Closes an upload and frees its parts."""
        self._drop_upload(bucket, upload.id)

    def _drop_upload(self, bucket: Bucket, upload_id: str) -> None:
        for part in bucket.uploads.pop(upload_id).parts.values():
            part.content.release()
