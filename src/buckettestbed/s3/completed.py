"""Completed multipart uploads, remembered for a while, so that a completion whose answer was lost can be repeated."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from buckettestbed.model.objects import Bucket, Upload
from buckettestbed.rest.uploads import ListedPart

__all__ = ["CompletedUploads"]

_KEPT_UPLOADS = 1000
"""*Source*: ours; S3 does not say for how long it knows an upload. A thousand answers take about 2 MiB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Completed:
    bucket: Bucket
    key: str
    listed: bytes
    answer: bytes


class CompletedUploads:
    """The latest completions of one service. One event loop owns it."""

    def __init__(self) -> None:
        self._uploads: OrderedDict[str, _Completed] = OrderedDict()

    def remember(self, bucket: Bucket, upload: Upload, listed: Sequence[ListedPart], answer: bytes) -> None:
        """Keeps what a completion listed and was answered; the oldest is forgotten."""
        self._uploads[upload.id] = _Completed(bucket=bucket, key=upload.key, listed=_digest(listed), answer=answer)
        if len(self._uploads) > _KEPT_UPLOADS:
            self._uploads.popitem(last=False)

    def answer(self, bucket: Bucket, upload_id: str, key: str, listed: Sequence[ListedPart]) -> bytes | None:
        """Returns the answer's document to a completion that lists the same parts as an earlier one, however it spells
        them, or None where it repeats none."""
        found = self._uploads.get(upload_id)
        if found is None or found.bucket is not bucket or found.key != key or found.listed != _digest(listed):
            return None
        return found.answer


def _digest(listed: Sequence[ListedPart]) -> bytes:
    return hashlib.sha256(repr([(part.number, part.etag) for part in listed]).encode()).digest()
