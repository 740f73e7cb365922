"""What the headers of a write say about its object: content headers and user metadata."""

import re
from collections.abc import Callable, Collection, Mapping
from urllib.parse import quote

from buckettestbed.model.objects import Attributes, StoredObject
from buckettestbed.rest.errors import RestError

__all__ = ["ObjectHeaders", "described_attributes", "stated_attributes"]

Headers = list[tuple[bytes, bytes]]

_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f]")

_NAME_CHARACTERS = "!#$&'*+-.^_`|~"
"""What a header's name may hold beside letters and digits, save `%`. *Source*: RFC 9110 section 5.6.2."""


def stated_attributes(
    headers: Mapping[str, str], *, kept: Collection[str], metadata_prefix: str, metadata_limit_bytes: int
) -> Attributes:
    """Returns the attributes that a PUT's or an upload's headers state; raises MetadataTooLarge.

    Args:
        headers: of the request, names in lower case.
        kept: names of the content headers that go with the object.
        metadata_prefix: what the names of user metadata begin with.
        metadata_limit_bytes: the most that names and values of user metadata may take together.
    """
    metadata = {
        name.removeprefix(metadata_prefix): value for name, value in headers.items() if name.startswith(metadata_prefix)
    }
    size_bytes = sum(len(name) + len(value) for name, value in metadata.items())
    if size_bytes > metadata_limit_bytes:
        raise RestError(
            "MetadataTooLarge", fields={"Size": str(size_bytes), "MaxSizeAllowed": str(metadata_limit_bytes)}
        )
    return Attributes(headers={name: headers[name] for name in kept if name in headers}, metadata=metadata)


class ObjectHeaders:
    """The headers of an object that every answer of a dialect with it has, built once.

    Args:
        dialect: whose, among the dialects that serve the object.
        build: builds them.
    """

    def __init__(self, dialect: str, build: Callable[[StoredObject], Headers]) -> None:
        self._dialect = dialect
        self._build = build

    def headers(self, found: StoredObject) -> Headers:
        """Returns them; do not change the list."""
        return self._prepared(found)[0]

    def lines(self, found: StoredObject) -> bytes:
        """Returns them as they go over the wire, each line ended."""
        return self._prepared(found)[1]

    def _prepared(self, found: StoredObject) -> tuple[Headers, bytes]:
        if found.prepared is None:
            found.prepared = {}
        if (prepared := found.prepared.get(self._dialect)) is None:
            headers = self._build(found)
            prepared = found.prepared[self._dialect] = headers, b"".join(b"%s: %s\r\n" % header for header in headers)
        return prepared


def described_attributes(
    attributes: Attributes, *, kept: Collection[str], default_type: str, metadata_prefix: str
) -> list[tuple[bytes, bytes]]:
    """Returns the content headers and the user metadata of an object as headers of an answer.

    Headers that came in by headers go out byte for byte. What another API wrote may hold what no header can: other
    characters than Latin-1 go out as UTF-8, control characters as spaces, and what no name may hold percent-encoded.

    Args:
        attributes: of the object.
        kept: names of the content headers that this dialect shows.
        default_type: the Content-Type of an object that was given none.
        metadata_prefix: what the names of user metadata begin with.
    """
    content = {name: attributes.headers[name] for name in kept if name in attributes.headers}
    headers = [
        (name.encode(), _header_bytes(value)) for name, value in ({"content-type": default_type} | content).items()
    ]
    for name, value in attributes.metadata.items():
        encoded = metadata_prefix + quote(name, safe=_NAME_CHARACTERS)
        headers.append((encoded.encode(), _header_bytes(value)))
    return headers


def _header_bytes(value: str) -> bytes:
    cleaned = value if value.isprintable() else _CONTROL.sub(" ", value)
    try:
        return cleaned.encode("latin-1")
    except UnicodeEncodeError:
        return cleaned.encode()
