"""Addresses of objects: ``s3://bucket/key``, ``gs://bucket/key``, ``file:///directory/key`` and ``memory://name/key``."""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

from torchbucket.errors import ConfigError

__all__ = ["SCHEMES", "Address", "ObjectURI", "key_bytes"]

SCHEMES = ("s3", "gs", "file", "memory")

# What S3 and GCS allow in a bucket's name, old ones included; it also keeps `user:password@` out of every address.
# Source: S3 user guide, "Bucket naming rules" (classic us-east-1 names had capitals, underscores and 255 characters).
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")

# How a text begins that is a path on this machine and no address with its scheme forgotten.
_PATHS: Final = ("/", "./", "../")

# What ``pathlib.Path`` makes of an address: `s3:/bucket/key`.
_COLLAPSED: Final = re.compile(rf"({'|'.join(SCHEMES)}):/(?!/)")


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectURI:
    """Names one object, or a prefix of objects, and the root (bucket, name, file system) that holds it.

    The key is plain text, taken literally: nothing is percent-decoded, ``#``, ``?`` and ``//`` belong to the key. It is
    all that follows the root, whatever the scheme: ``train/cat/1.jpg`` of ``s3://data/train/cat/1.jpg`` and
    ``data/train/cat/1.jpg`` of ``file:///data/train/cat/1.jpg``, whose root is the file system, ``file:///``.

    Args:
        scheme: one of ``SCHEMES``.
        bucket: the bucket's or the memory store's name; of files the absolute path of the directory that keys follow.
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
    def parse(cls, address: Address) -> Self:
        """Take an address apart.

        Args:
            address: a text with its scheme; or a path on this machine, as an ``os.PathLike`` or a text that begins with
                ``/``, ``./`` or ``../``. The path of a directory names what is in it, as if it ended with a slash. An
                address that became a ``pathlib.Path``, and so lost a slash (``s3:/bucket/key``), is taken for what it
                was.

        Raises:
            ConfigError: it is none; the message quotes it.
        """
        if isinstance(address, cls):
            return address
        text = _text_of(address)
        scheme, separator, rest = text.partition("://")
        if not separator or scheme not in SCHEMES:
            raise ConfigError(
                f"{_without_userinfo(text)!r} is not an address; expected one that begins with "
                f"{', '.join(f'{name}://' for name in SCHEMES)}, or a path that begins with {', '.join(_PATHS)}"
            )
        if scheme == "file":
            return cls(scheme=scheme, bucket="/", key=_normal_path(text, rest).removeprefix("/"))
        bucket, _, key = rest.partition("/")
        return cls(scheme=scheme, bucket=bucket, key=key)

    @classmethod
    def parse_root(cls, address: Address) -> Self:
        """Take the address of a whole bucket, or of a directory that keys are to follow, with or without a slash.

        Raises:
            ConfigError: it is none, or that of an object in a bucket.
        """
        location = cls.parse(address)
        if location.scheme == "file":
            return cls(scheme="file", bucket=str(location).removeprefix("file://").rstrip("/") or "/")
        if location.key:
            raise ConfigError(
                f"expected the address of a bucket, such as {location.root!r}; got {str(location)!r}. For an object or "
                "a prefix: location = ObjectURI.parse(address), then open_store(location) and location.key"
            )
        return location

    @property
    def root(self) -> str:
        """The address without the key, as ``open_store`` takes it."""
        return f"{self.scheme}://{self.bucket}"

    def __str__(self) -> str:
        separator = "" if self.bucket == "/" else "/"
        return f"{self.root}{separator}{self.key}"


Address: TypeAlias = str | os.PathLike[str] | ObjectURI
"""What names an object or a prefix: a text with its scheme, a path on this machine, or an address taken apart."""


def key_bytes(key: str) -> bytes:
    """The UTF-8 bytes of a key, by which keys are compared; raise ``ConfigError`` where it holds a lone surrogate."""
    try:
        return key.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the key {key!r} is not valid Unicode text: {error.reason} at {error.start}") from None


def _text_of(address: object) -> str:
    if not isinstance(address, str | os.PathLike):
        raise ConfigError(
            f"an address is a text such as 's3://bucket/key', or a path (str or os.PathLike) on this machine; got "
            f"{_without_userinfo(repr(address))} of the type {type(address).__name__}"
        )
    path = os.fsdecode(address)
    if collapsed := _COLLAPSED.match(path):
        scheme = collapsed[1]
        return f"{scheme}://{'/' * (scheme == 'file')}{path[collapsed.end() :]}"
    if isinstance(address, str) and not address.startswith(_PATHS):
        return address
    is_directory = path.endswith("/") or os.path.isdir(path)  # noqa: PTH112  # the text is what is needed
    return f"file://{os.path.abspath(path)}{'/' * is_directory}"  # noqa: PTH100


def _normal_path(text: str, path: str) -> str:
    """The one spelling of a file's path: two of them would be two keys for it."""
    if not path.startswith("/"):
        raise ConfigError(f"{text!r}: a file address has three slashes and an absolute path, such as file:///data")
    if "\0" in path:
        raise ConfigError(f"{text!r}: a path has no NUL")
    normal = posixpath.normpath(path).lstrip("/")
    return f"/{normal}/" if normal and path.endswith(("/", "/.", "/..")) else f"/{normal}"


def _without_userinfo(text: str) -> str:
    """The text without what stands before an ``@``, which may be a secret pasted by mistake."""
    return text if "@" not in text else "…@" + text.rpartition("@")[2]
