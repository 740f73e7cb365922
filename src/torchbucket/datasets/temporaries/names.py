"""Names of temporary objects: made so that no two are alike, and told from anybody else's."""

from __future__ import annotations

import itertools
import os
import re
import socket
import time
import uuid
from calendar import timegm
from typing import Final

from torchbucket.errors import ConfigError
from torchbucket.uri import key_bytes

__all__ = ["TEMPORARIES_PREFIX", "TemporaryNames", "check_temporaries_prefix", "made_at_s"]

TEMPORARIES_PREFIX: Final = "torchbucket-temporaries/"

# Source: a key has at most 1,024 bytes with every provider, and a name's own part at most 160 here.
_LONGEST_PREFIX_BYTES: Final = 800

_TIME: Final = "%Y%m%dT%H%M%SZ"

# The random part is first, so that names made in one second are not neighbours in the provider's index. What a store
# adds to a key while it composes many objects (store/temporary_names.py) stands at the end.
_NAME: Final = re.compile(
    r"[0-9a-f]{32}-(?P<time>[0-9]{8}T[0-9]{6}Z)-[0-9]{1,10}-[0-9]{6,12}-[a-z0-9-]{1,40}"
    r"(\.torchbucket-temporary-[0-9a-f]{16})?"
)


class TemporaryNames:
    """Makes the keys of one iterator's temporary objects.

    A key says who made it and when: the prefix, a random number, the time, the process' number, a count, the host.

    Args:
        prefix: what all keys begin with; ends with a slash.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._random = uuid.uuid4().hex
        self._host = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().lower())[:40].strip("-") or "host"
        self._count = itertools.count()

    def make(self) -> str:
        """A key that was not made before, by anybody."""
        now = time.strftime(_TIME, time.gmtime())
        return f"{self._prefix}{self._random}-{now}-{os.getpid()}-{next(self._count):06}-{self._host}"


def made_at_s(key: str, prefix: str) -> float | None:
    """When a temporary object was made, in seconds since 1970, by its name; None for any other object."""
    found = _NAME.fullmatch(key[len(prefix) :]) if key.startswith(prefix) else None
    if found is None:
        return None
    try:
        return float(timegm(time.strptime(found["time"], _TIME)))
    except ValueError:
        return None


def check_temporaries_prefix(prefix: str) -> None:
    """Raise ``ConfigError`` unless temporary objects can live under ``prefix`` by themselves."""
    if not isinstance(prefix, str) or not prefix.strip("/") or not prefix.endswith("/"):
        raise ConfigError(
            f"a prefix of temporaries is a text that ends with a slash, such as {TEMPORARIES_PREFIX!r}; got {prefix!r}"
        )
    if len(key_bytes(prefix)) > _LONGEST_PREFIX_BYTES:
        raise ConfigError(
            f"a prefix of temporaries has at most {_LONGEST_PREFIX_BYTES} bytes; got {len(key_bytes(prefix))}"
        )
