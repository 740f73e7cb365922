"""What a path of the JSON API means. A bucket's and an object's name are one percent-encoded segment each."""

from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

__all__ = ["Address", "parse_path"]

_ROOTS = {
    b"/storage/v1/": "metadata",
    b"/upload/storage/v1/": "upload",
    b"/resumable/upload/storage/v1/": "upload",
    b"/download/storage/v1/": "download",
}
"""*Source*: Cloud Storage, JSON API overview, request endpoints; the second of uploads is of older clients."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A path taken apart.

    `root` is `metadata`, `upload`, `download` or `batch`; `form` what follows it, with `B` and `K` for names, such as
    `b/B/o/K/compose`; `to_bucket` and `to_key` are a copy's destination.
    """

    root: str
    form: str = ""
    bucket: str = ""
    key: str = ""
    to_bucket: str = ""
    to_key: str = ""


def parse_path(raw_path: bytes) -> Address | None:
    """Returns what a path means, or None where it is none of the JSON API's, or not percent-encoded UTF-8."""
    if raw_path.rstrip(b"/") == b"/batch/storage/v1" or raw_path.startswith(b"/batch/storage/v1?"):
        return Address(root="batch")
    for prefix, root in _ROOTS.items():
        if raw_path.startswith(prefix):
            try:
                segments = [unquote_to_bytes(segment).decode() for segment in raw_path[len(prefix) :].split(b"/")]
            except UnicodeDecodeError:
                return None
            return _address(root, segments)
    return None


def _address(root: str, segments: list[str]) -> Address | None:
    """Returns the address; a name follows each `b` and `o` that is not itself a name."""
    form: list[str] = []
    names: dict[str, list[str]] = {"b": [], "o": []}
    pending: str | None = None
    for segment in segments:
        if pending is not None:
            if not segment:
                return None
            names[pending].append(segment)
            form.append("B" if pending == "b" else "K")
            pending = None
        else:
            form.append(segment)
            pending = segment if segment in names else None
    buckets, keys = names["b"], names["o"]
    if len(buckets) > 2 or len(keys) > 2:
        return None
    return Address(
        root=root,
        form="/".join(form),
        bucket=buckets[0] if buckets else "",
        key=keys[0] if keys else "",
        to_bucket=buckets[1] if len(buckets) > 1 else "",
        to_key=keys[1] if len(keys) > 1 else "",
    )
