"""Listing of objects (version 1 and 2) and of open uploads."""

import base64
import binascii
from collections.abc import Callable
from urllib.parse import quote

from bucketbench.testbed.faults.listing import list_page
from bucketbench.testbed.model.objects import Bucket
from bucketbench.testbed.rest.call import Call, xml_response
from bucketbench.testbed.s3.errors import S3Error
from bucketbench.testbed.serving.messages import Response
from bucketbench.testbed.serving.xml import document, element, text, timestamp

__all__ = ["list_objects_v1", "list_objects_v2", "list_uploads"]

PAGE_LIMIT = 1000
"""*Source*: Amazon S3 API reference, ListObjectsV2: up to 1,000 keys a page."""

OWNER = "<Owner><ID>testbed</ID><DisplayName>testbed</DisplayName></Owner>"


def _encoder(call: Call) -> Callable[[str], str]:
    """Returns how names are written in the answer: percent-encoded where `encoding-type=url` asks for it, else as XML
    text."""
    kind = call.query.get("encoding-type")
    if kind is None:
        return text
    if kind != "url":
        raise S3Error(
            "InvalidArgument",
            f"encoding-type is {kind!r}; S3 knows only url.",
            fields={"ArgumentName": "encoding-type"},
        )
    return lambda name: quote(name, safe="/")


async def list_objects_v2(call: Call) -> Response:
    """Answers ListObjectsV2."""
    bucket, encode = call.bucket(), _encoder(call)
    prefix, delimiter = call.query.get("prefix", ""), call.query.get("delimiter", "")
    start_after, token = call.query.get("start-after", ""), call.query.get("continuation-token")
    limit = call.integer("max-keys", PAGE_LIMIT, most=PAGE_LIMIT)
    if token == "":
        raise S3Error(
            "InvalidArgument", "The continuation token is empty.", fields={"ArgumentName": "continuation-token"}
        )
    after = start_after if token is None else _from_token(token)
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
        fields.append(element("NextContinuationToken", _to_token(page.last)))
    if "encoding-type" in call.query:
        fields.append(element("EncodingType", "url"))
    owner = OWNER if call.query.get("fetch-owner", "").lower() == "true" else ""
    fields += _entries(bucket, page.names, page.common_prefixes, encode, owner)
    return xml_response(document("ListBucketResult", fields))


async def list_objects_v1(call: Call) -> Response:
    """Answers ListObjects, version 1."""
    bucket, encode = call.bucket(), _encoder(call)
    prefix, delimiter, marker = (call.query.get(name, "") for name in ("prefix", "delimiter", "marker"))
    limit = call.integer("max-keys", PAGE_LIMIT, most=PAGE_LIMIT)
    page = list_page(bucket, prefix=prefix, delimiter=delimiter, after=marker, limit=limit, fault=call.request.fault)
    fields = [
        element("Name", bucket.name),
        f"<Prefix>{encode(prefix)}</Prefix>",
        f"<Marker>{encode(marker)}</Marker>",
        element("MaxKeys", limit),
        element("IsTruncated", str(page.truncated).lower()),
    ]
    if delimiter:
        fields.append(f"<Delimiter>{encode(delimiter)}</Delimiter>")
        if page.truncated:  # Without a delimiter S3 leaves it out: the last key is the marker.
            fields.append(f"<NextMarker>{encode(page.last)}</NextMarker>")
    if "encoding-type" in call.query:
        fields.append(element("EncodingType", "url"))
    fields += _entries(bucket, page.names, page.common_prefixes, encode, OWNER)
    return xml_response(document("ListBucketResult", fields))


def _entries(
    bucket: Bucket, names: list[str], common_prefixes: list[str], encode: Callable[[str], str], owner: str
) -> list[str]:
    entries: list[str] = []
    for name in names:
        found = bucket.objects[name]
        algorithms = "".join(
            f"<ChecksumAlgorithm>{kind.upper()}</ChecksumAlgorithm>" for kind in found.attributes.checksums
        )
        entries.append(
            f"<Contents><Key>{encode(name)}</Key><LastModified>{timestamp(found.modified_s)}</LastModified>"
            f"<ETag>&quot;{found.etag}&quot;</ETag>{algorithms}<Size>{found.size_bytes}</Size>{owner}"
            "<StorageClass>STANDARD</StorageClass></Contents>"
        )
    entries += [f"<CommonPrefixes><Prefix>{encode(name)}</Prefix></CommonPrefixes>" for name in common_prefixes]
    return entries


def _to_token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _from_token(token: str) -> str:
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        message = "The continuation token is not one that a listing returned."
        raise S3Error("InvalidArgument", message, fields={"ArgumentName": "continuation-token"}) from None


async def list_uploads(call: Call) -> Response:
    """Lists the open uploads, by key and then by age."""
    bucket, encode = call.bucket(), _encoder(call)
    prefix, delimiter = call.query.get("prefix", ""), call.query.get("delimiter", "")
    if delimiter:
        raise S3Error("NotImplemented", "The testbed lists uploads without a delimiter.")
    marker = (call.query.get("key-marker", ""), call.query.get("upload-id-marker", ""))
    limit = call.integer("max-uploads", PAGE_LIMIT, most=PAGE_LIMIT)
    ordered = sorted((upload for upload in bucket.uploads.values()), key=lambda upload: (upload.key, upload.created_s))
    after_id = marker[1] in bucket.uploads
    later = []
    passed = not after_id
    for upload in ordered:
        if upload.key > marker[0] or (upload.key == marker[0] and after_id and passed):
            later.append(upload)
        passed = passed or upload.id == marker[1]
    later = [upload for upload in later if upload.key.startswith(prefix)]
    shown = later[:limit]
    truncated = len(later) > len(shown)
    fields = [
        element("Bucket", bucket.name),
        f"<KeyMarker>{encode(marker[0])}</KeyMarker>",
        element("UploadIdMarker", marker[1]),
        f"<Prefix>{encode(prefix)}</Prefix>",
        element("MaxUploads", limit),
        element("IsTruncated", str(truncated).lower()),
    ]
    if truncated and shown:
        fields.append(f"<NextKeyMarker>{encode(shown[-1].key)}</NextKeyMarker>")
        fields.append(element("NextUploadIdMarker", shown[-1].id))
    if "encoding-type" in call.query:
        fields.append(element("EncodingType", "url"))
    for upload in shown:
        described = f"<Key>{encode(upload.key)}</Key>" + element("UploadId", upload.id)
        times = element("StorageClass", "STANDARD") + element("Initiated", timestamp(upload.created_s))
        fields.append(f"<Upload>{described}{OWNER}{times}</Upload>")
    return xml_response(document("ListMultipartUploadsResult", fields))
