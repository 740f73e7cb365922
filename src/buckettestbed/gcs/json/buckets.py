"""Buckets over the JSON API, and what surrounds them: permissions, storage layout."""

from urllib.parse import parse_qs

from buckettestbed.gcs.json.call import Call
from buckettestbed.gcs.json.errors import JsonError
from buckettestbed.gcs.json.listing import after_token
from buckettestbed.gcs.json.metadata import switched_off
from buckettestbed.gcs.json.resources import bucket_resource
from buckettestbed.gcs.names import check_bucket_name
from buckettestbed.rest.tokens import token_after
from buckettestbed.serving.messages import Response

__all__ = [
    "create_bucket",
    "delete_bucket",
    "get_bucket",
    "get_bucket_policy",
    "get_storage_layout",
    "list_buckets",
    "test_permissions",
    "update_bucket",
]

_PAGE_LIMIT = 1000
"""*Source*: Cloud Storage, JSON API reference, Buckets: list: 1,000 by default."""

_WITHOUT_EFFECT = frozenset(
    [
        "acl",
        "billing",
        "cors",
        "defaultObjectAcl",
        "etag",
        "iamConfiguration",
        "id",
        "kind",
        "labels",
        "location",
        "locationType",
        "logging",
        "metageneration",
        "name",
        "projectNumber",
        "rpo",
        "selfLink",
        "storageClass",
        "timeCreated",
        "updated",
        "website",
    ]
)
"""Fields of a bucket that say nothing about how its objects are stored or read; they are accepted, and not kept."""

_READING = frozenset({"get", "list", "getIamPolicy"})
"""Verbs of the permissions of a caller who may only read."""


async def list_buckets(call: Call) -> Response:
    """Lists the buckets, of whatever project."""
    prefix, limit = call.query.get("prefix", ""), call.integer("maxResults", _PAGE_LIMIT, most=_PAGE_LIMIT)
    after = after_token(call.query.get("pageToken", ""))
    later = [bucket for bucket in call.buckets if bucket.name.startswith(prefix) and bucket.name > after]
    document: dict[str, object] = {"kind": "storage#buckets"}
    if len(later) > limit:
        document["nextPageToken"] = token_after(later[limit - 1].name)
    if later:
        document["items"] = [bucket_resource(bucket, call.endpoint) for bucket in later[:limit]]
    return call.answer(document)


async def get_bucket(call: Call) -> Response:
    """Answers with a bucket's resource."""
    bucket = call.bucket()
    _check_metageneration(call)
    return call.answer(bucket_resource(bucket, call.endpoint))


async def create_bucket(call: Call) -> Response:
    """Makes a bucket."""
    document = await call.document()
    name = document.get("name")
    if not isinstance(name, str) or not name:
        raise JsonError(400, "Required: name.", reason="required", parameter="name")
    _check_settings(document)
    check_bucket_name(name)
    return call.answer(bucket_resource(call.buckets.create_bucket(name), call.endpoint))


async def update_bucket(call: Call) -> Response:
    """Accepts settings without effect, refuses others."""
    bucket = call.bucket()
    _check_metageneration(call)
    _check_settings(await call.document())
    return call.answer(bucket_resource(bucket, call.endpoint))


async def delete_bucket(call: Call) -> Response:
    """Removes an empty bucket."""
    call.bucket()
    _check_metageneration(call)
    call.buckets.delete_bucket(call.address.bucket)
    return Response(status=204)


def _check_settings(document: dict[str, object]) -> None:
    """Raises JsonError (501) for settings that would change what the testbed does: versions, retention, encryption."""
    for field, value in document.items():
        if field not in _WITHOUT_EFFECT and not switched_off(value):
            raise JsonError(501, f"The testbed's buckets have no {field}.", parameter=field)


def _check_metageneration(call: Call) -> None:
    """Raises JsonError (412): the metageneration of every bucket is 1."""
    match, not_match = call.conditions.metageneration_match, call.conditions.metageneration_not_match
    if match not in (None, 1) or not_match == 1:
        raise JsonError(412)


async def get_bucket_policy(call: Call) -> Response:
    """Answers with a policy that grants nothing: access is the server's, not the bucket's."""
    call.bucket()
    resource_id = f"projects/_/buckets/{call.address.bucket}"
    return call.answer({"kind": "storage#policy", "resourceId": resource_id, "version": 1, "etag": "CAE="})


async def test_permissions(call: Call) -> Response:
    """Answers with those of the permissions asked for that the caller has."""
    call.bucket()
    asked = parse_qs(call.request.raw_query.decode("latin-1")).get("permissions", [])
    if not asked:
        raise JsonError(400, "Required: permissions.", reason="required", parameter="permissions")
    granted = [name for name in asked if call.request.may_write or name.rpartition(".")[2] in _READING]
    document: dict[str, object] = {"kind": "storage#testIamPermissionsResponse"}
    return call.answer(document | ({"permissions": granted} if granted else {}))


async def get_storage_layout(call: Call) -> Response:
    """Says that the bucket's namespace is flat."""
    bucket = call.bucket()
    layout = {
        "kind": "storage#storageLayout",
        "bucket": bucket.name,
        "location": "US",
        "locationType": "multi-region",
        "hierarchicalNamespace": {"enabled": False},
    }
    return call.answer(layout)
