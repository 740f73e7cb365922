"""What the headers of a write say about its object: content headers and user metadata."""

from collections.abc import Collection, Mapping

from bucketbench.testbed.model.objects import Attributes
from bucketbench.testbed.rest.errors import RestError

__all__ = ["stated_attributes"]


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
