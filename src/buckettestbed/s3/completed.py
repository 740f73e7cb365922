"""Completed multipart uploads, remembered for a while, so that a completion whose answer was lost can be repeated."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from buckettestbed.model.objects import Bucket, Upload

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

    def remember(self, bucket: Bucket, upload: Upload, body: bytes, answer: bytes) -> None:
        """Keeps what a completion listed and was answered; the oldest is forgotten."""
        self._uploads[upload.id] = _Completed(bucket=bucket, key=upload.key, listed=_digest(body), answer=answer)
        if len(self._uploads) > _KEPT_UPLOADS:
            self._uploads.popitem(last=False)

    def answer(self, bucket: Bucket, upload_id: str, key: str, body: bytes) -> bytes | None:
        """Returns the answer's document to a completion that repeats an earlier one, or None where it repeats none."""
        found = self._uploads.get(upload_id)
        if found is None or found.bucket is not bucket or found.key != key or found.listed != _digest(body):
            return None
        return found.answer


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
