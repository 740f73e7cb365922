"""Listings of objects, version 1 and 2, as S3 and the XML API of GCS both have them."""

from collections.abc import Callable
from dataclasses import dataclass

from buckettestbed.faults.listing import list_page
from buckettestbed.model.names import NamePage
from buckettestbed.model.objects import Bucket, StoredObject
from buckettestbed.rest.call import Call, xml_response
from buckettestbed.rest.encoding import name_encoder
from buckettestbed.rest.errors import RestError
from buckettestbed.rest.tokens import name_in_token, token_after
from buckettestbed.serving.messages import Response
from buckettestbed.serving.xml import document, element

__all__ = ["PAGE_LIMIT", "ListingStyle", "after_token"]

PAGE_LIMIT = 1000
"""*Source*: Amazon S3 API reference, ListObjectsV2, and Cloud Storage XML API, list objects: up to 1,000 a page."""


@dataclass(frozen=True, kw_only=True)
class ListingStyle:
    """What tells a provider's listings from another's, and the listings in that style.

    Args:
        namespace: of the document.
        describe: returns the elements that an object's entry has after its key.
        owner: the element that says who owns an object: in version 2 where the request asks for it.
        owner_in_version_1: whether version 1 always has it.
        next_marker_always: whether version 1 names the next marker in every page that another follows; else only with
            a delimiter, because without one it is the page's last key.
    """

    namespace: str
    describe: Callable[[StoredObject], str]
    owner: str
    owner_in_version_1: bool
    next_marker_always: bool

    async def version_2(self, call: Call) -> Response:
        """Returns a page of a listing that `list-type=2` asks for."""
        bucket, encode = call.bucket(), name_encoder(call)
        prefix, delimiter = call.query.get("prefix", ""), call.query.get("delimiter", "")
        start_after, token = call.query.get("start-after", ""), call.query.get("continuation-token")
        limit = call.integer("max-keys", PAGE_LIMIT, most=PAGE_LIMIT)
        after = start_after if token is None else after_token(token)
        page = list_page(bucket, prefix=prefix, delimiter=delimiter, after=after, limit=limit, fault=call.request.fault)
        fields = [
            element("Name", bucket.name),
            f"<Prefix>{encode(prefix)}</Prefix>",
            element("MaxKeys", limit),
            element("KeyCount", len(page.names) + len(page.common_prefixes)),
            element("IsTruncated", str(page.truncated).lower()),
        ]
        if delimiter:
            fields.append(f"<Delimiter>{encode(delimiter)}</Delimiter>")
        if start_after:
            fields.append(f"<StartAfter>{encode(start_after)}</StartAfter>")
        if token is not None:
            fields.append(element("ContinuationToken", token))
        if page.truncated:
            fields.append(element("NextContinuationToken", token_after(page.last)))
        owner = self.owner if call.query.get("fetch-owner", "").lower() == "true" else ""
        return self._response(call, bucket, page, fields, owner, encode)

    async def version_1(self, call: Call) -> Response:
        """Returns a page of a listing without `list-type`."""
        bucket, encode = call.bucket(), name_encoder(call)
        prefix, delimiter, marker = (call.query.get(name, "") for name in ("prefix", "delimiter", "marker"))
        limit = call.integer("max-keys", PAGE_LIMIT, most=PAGE_LIMIT)
        page = list_page(
            bucket, prefix=prefix, delimiter=delimiter, after=marker, limit=limit, fault=call.request.fault
        )
        fields = [
            element("Name", bucket.name),
            f"<Prefix>{encode(prefix)}</Prefix>",
            f"<Marker>{encode(marker)}</Marker>",
            element("MaxKeys", limit),
            element("IsTruncated", str(page.truncated).lower()),
        ]
        if delimiter:
            fields.append(f"<Delimiter>{encode(delimiter)}</Delimiter>")
        if page.truncated and (delimiter or self.next_marker_always):
            fields.append(f"<NextMarker>{encode(page.last)}</NextMarker>")
        owner = self.owner if self.owner_in_version_1 else ""
        return self._response(call, bucket, page, fields, owner, encode)

    def _response(
        self, call: Call, bucket: Bucket, page: NamePage, fields: list[str], owner: str, encode: Callable[[str], str]
    ) -> Response:
        if "encoding-type" in call.query:
            fields.append(element("EncodingType", "url"))
        for name in page.names:
            described = self.describe(bucket.objects[name])
            fields.append(f"<Contents><Key>{encode(name)}</Key>{described}{owner}</Contents>")
        fields += [f"<CommonPrefixes><Prefix>{encode(name)}</Prefix></CommonPrefixes>" for name in page.common_prefixes]
        return xml_response(document("ListBucketResult", fields, namespace=self.namespace))


def after_token(token: str) -> str:
    """Returns the name that a page begins after whose continuation token this is; raises InvalidArgument."""
    try:
        return name_in_token(token)
    except ValueError as error:
        raise RestError(
            "InvalidArgument",
            f"The continuation token is {token[:80]!r}: {error}.",
            fields={"ArgumentName": "continuation-token"},
        ) from None
