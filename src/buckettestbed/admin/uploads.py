"""Uploads that were begun and neither completed nor given up, of every dialect."""

from buckettestbed.model.buckets import Buckets

__all__ = ["open_uploads"]


def open_uploads(buckets: Buckets) -> list[dict[str, object]]:
    """Returns the open uploads as plain values, bucket by bucket.

    Each has its `kind` (`multipart`, or `resumable` for a session of GCS's JSON API), `bucket`, `key`, `id`,
    `created_s` (seconds since the epoch), `parts` (None for a session, which has none) and `bytes` that arrived so far.
    """
    multipart: list[dict[str, object]] = [
        {
            "kind": "multipart",
            "bucket": bucket.name,
            "key": upload.key,
            "id": upload.id,
            "created_s": upload.created_s,
            "parts": len(upload.parts),
            "bytes": sum(part.content.size_bytes for part in upload.parts.values()),
        }
        for bucket in buckets
        for upload in bucket.uploads.values()
    ]
    resumable: list[dict[str, object]] = [
        {
            "kind": "resumable",
            "bucket": bucket.name,
            "key": session.key,
            "id": session_id,
            "created_s": session.created_s,
            "parts": None,
            "bytes": session.received_bytes,
        }
        for bucket in buckets
        for session_id, session in bucket.sessions.items()
    ]
    return [*multipart, *resumable]
