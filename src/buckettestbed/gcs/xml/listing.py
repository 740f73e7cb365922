"""Listing of objects and of open uploads in the XML API."""

from buckettestbed.gcs.xml.writing import NAMESPACE
from buckettestbed.model.objects import StoredObject
from buckettestbed.rest.call import Call
from buckettestbed.rest.listing import ListingStyle
from buckettestbed.rest.uploads import uploads_response
from buckettestbed.serving.messages import Response
from buckettestbed.serving.xml import timestamp

__all__ = ["OWNER", "STYLE", "list_uploads"]

OWNER = "<Owner><ID>testbed</ID></Owner>"


def _described(found: StoredObject) -> str:
    return (
        f"<Generation>{found.generation}</Generation><MetaGeneration>{found.metageneration}</MetaGeneration>"
        f"<LastModified>{timestamp(found.modified_s)}</LastModified><ETag>&quot;{found.etag}&quot;</ETag>"
        f"<Size>{found.size_bytes}</Size><StorageClass>{found.attributes.storage_class}</StorageClass>"
    )


STYLE = ListingStyle(
    namespace=NAMESPACE, describe=_described, owner=OWNER, owner_in_version_1=False, next_marker_always=True
)


async def list_uploads(call: Call) -> Response:
    """Lists the open uploads, by key and then by age."""
    return uploads_response(call, call.bucket(), owner=OWNER)
