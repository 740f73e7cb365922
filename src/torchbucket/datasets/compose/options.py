"""The settings of the compose strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from torchbucket.config import check_int
from torchbucket.errors import ConfigError
from torchbucket.public import public
from torchbucket.uri import key_bytes

__all__ = ["Compose"]

_PREFIX: Final = "torchbucket-temporaries/"

# Source: a key has at most 1,024 bytes with every provider, and what follows the prefix at most 160 here.
_LONGEST_PREFIX_BYTES: Final = 800


@public
@dataclass(frozen=True, kw_only=True, slots=True)
class Compose:
    """As ``fetch=`` of a data set: objects that are read one after another are joined by the server, and read as one.

    The joined object is temporary: it is removed as soon as it is read, and however the process ends, except by SIGKILL
    or with its host; ``torchbucket sweep-temporaries`` removes what those leave. On Cloud Storage; ``memory://``
    can do it too, for tests. Needs permission to create and delete objects. ``docs/compose.md`` says when it pays, what
    it costs, and why it is mostly slower than plain concurrent reads.

    Args:
        maximum_bytes: bound on a joined object, and so on one request's answer; an object that does not fit beside
            another is read by itself. 0 switches the strategy off. *Source* of the default: 100 MB is what
            gcs-torch-dataflux has (its ``max_composite_object_size``), here a round number of MiB.
        maximum_objects: bound on how many are joined. *Source* of the default: Cloud Storage joins at most 32 with one
            request; more take a request and a temporary object for each further 31.
        requests_in_flight: how many requests to join, or to remove, are under way at once, in each iterator. *Source*:
            8 of 32 objects, each taking 50 ms, are 5,000 objects a second.
        prefix: what the temporary objects' names begin with, in the data set's bucket; ends with a slash. Data sets
            leave temporary objects out, so it may lie under their own prefix; other programs would list them there.

    Raises:
        ConfigError: a setting is wrong.
    """

    maximum_bytes: int = 100 << 20
    maximum_objects: int = 32
    requests_in_flight: int = 8
    prefix: str = _PREFIX

    def __post_init__(self) -> None:
        check_int(self, "maximum_bytes", 0, 5 << 40)  # the largest object. Source: Cloud Storage, "Quotas and limits"
        check_int(self, "maximum_objects", 2, 1024)
        check_int(self, "requests_in_flight", 1, 64)
        if not isinstance(self.prefix, str) or not self.prefix.strip("/") or not self.prefix.endswith("/"):
            raise ConfigError(
                f"Compose.prefix is a text that ends with a slash, such as {_PREFIX!r}; got {self.prefix!r}"
            )
        if len(key_bytes(self.prefix)) > _LONGEST_PREFIX_BYTES:
            raise ConfigError(
                f"Compose.prefix has at most {_LONGEST_PREFIX_BYTES} bytes; got {len(key_bytes(self.prefix))}"
            )
