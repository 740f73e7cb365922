"""Addresses of objects: ``s3://bucket/key``, ``gs://bucket/key``, ``file:///directory/key`` and ``memory://name/key``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from torchbucket.errors import ConfigError

__all__ = ["SCHEMES", "ObjectURI", "key_bytes"]

SCHEMES = ("s3", "gs", "file", "memory")

# What S3 and GCS allow in a bucket's name, old ones included; it also keeps `user:password@` out of every address.
# Source: S3 user guide, "Bucket naming rules" (classic us-east-1 names had capitals, underscores and 255 characters).
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectURI:
    """Names one object, or a prefix of objects, and the root (bucket, directory, name) that holds it.

    The key is plain text, taken literally: nothing is percent-decoded, ``#``, ``?`` and ``//`` belong to the key.
    The root of a ``file`` address is the directory up to the last slash, so ``file:///data/train/img_`` is the prefix
    ``img_`` in ``/data/train``, and ``file:///data/train/`` is everything in that directory.

    Args:
        scheme: one of ``SCHEMES``.
        bucket: the bucket's or the memory store's name; of a file the absolute path of its directory.
        key: the object's key or a prefix; empty means the whole root.
    """

    scheme: str
    bucket: str
    key: str = ""

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise ConfigError(f"the scheme {self.scheme!r} is unknown; expected one of {', '.join(SCHEMES)}")
        if self.scheme == "file":
            if not self.bucket.startswith("/") or "\0" in self.bucket:
                raise ConfigError(f"a file address needs an absolute path, such as file:///data; got {self.bucket!r}")
        elif not _BUCKET.fullmatch(self.bucket):
            raise ConfigError(
                f"a {self.scheme} address needs a bucket name of letters, digits, '.', '_' and '-', such as "
                f"{self.scheme}://my-bucket/key; got {_without_userinfo(self.bucket)!r}"
            )
        key_bytes(self.key)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take an address apart; raise ``ConfigError`` that quotes it where it is none."""
        scheme, separator, rest = text.partition("://")
        if not separator or scheme not in SCHEMES:
            raise ConfigError(
                f"{_without_userinfo(text)!r} is not an address; expected one that begins with "
                f"{', '.join(f'{name}://' for name in SCHEMES)}"
            )
        if scheme == "file":
            if not rest.startswith("/"):
                raise ConfigError(
                    f"{text!r}: a file address has three slashes and an absolute path, such as file:///data"
                )
            directory, _, key = rest.rpartition("/")
            return cls(scheme=scheme, bucket=directory or "/", key=key)
        bucket, _, key = rest.partition("/")
        return cls(scheme=scheme, bucket=bucket, key=key)

    @property
    def root(self) -> str:
        """The address without the key, as ``open_store`` takes it."""
        return f"{self.scheme}://{self.bucket}"

    def __str__(self) -> str:
        separator = "" if self.bucket == "/" else "/"
        return f"{self.root}{separator}{self.key}"


def key_bytes(key: str) -> bytes:
    """The UTF-8 bytes of a key, by which keys are compared; raise ``ConfigError`` where it holds a lone surrogate."""
    try:
        return key.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the key {key!r} is not valid Unicode text: {error.reason} at {error.start}") from None


def _without_userinfo(text: str) -> str:
    """The text without what stands before an ``@``, which may be a secret pasted by mistake."""
    return text if "@" not in text else "…@" + text.rpartition("@")[2]
