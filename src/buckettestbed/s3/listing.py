"""Listing of objects (version 1 and 2) and of open uploads, as S3 writes them."""

from buckettestbed.model.objects import StoredObject
from buckettestbed.rest.call import Call
from buckettestbed.rest.listing import ListingStyle
from buckettestbed.rest.uploads import uploads_response
from buckettestbed.serving.messages import Response
from buckettestbed.serving.xml import S3_NAMESPACE, timestamp

__all__ = ["OWNER", "STYLE", "list_uploads"]

OWNER = "<Owner><ID>testbed</ID><DisplayName>testbed</DisplayName></Owner>"


def _described(found: StoredObject) -> str:
    checksums = found.attributes.checksums
    algorithms = "".join(f"<ChecksumAlgorithm>{kind.upper()}</ChecksumAlgorithm>" for kind in checksums)
    if checksums:
        algorithms += f"<ChecksumType>{found.attributes.checksum_type}</ChecksumType>"
    return (
        f"<LastModified>{timestamp(found.modified_s)}</LastModified><ETag>&quot;{found.etag}&quot;</ETag>{algorithms}"
        f"<Size>{found.size_bytes}</Size><StorageClass>{found.attributes.storage_class}</StorageClass>"
    )


STYLE = ListingStyle(
    namespace=S3_NAMESPACE, describe=_described, owner=OWNER, owner_in_version_1=True, next_marker_always=False
)


async def list_uploads(call: Call) -> Response:
    """Lists the open uploads, by key and then by age."""
    return uploads_response(call, call.bucket(), owner="<Initiator><ID>testbed</ID></Initiator>" + OWNER)
