"""One operation on its way: the request with what its path means, and the model it acts on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from buckettestbed.gcs.json.errors import JSON_HEADER, JsonError
from buckettestbed.gcs.json.fields import Fields, parse_fields, select
from buckettestbed.gcs.json.resources import object_resource
from buckettestbed.gcs.preconditions import Preconditions
from buckettestbed.model.buckets import Buckets
from buckettestbed.model.objects import Bucket, StoredObject
from buckettestbed.operations.gcs_json import Address
from buckettestbed.serving.messages import Request, Response

__all__ = ["DOCUMENT_LIMIT_BYTES", "SOURCE_CONDITIONS", "Call", "endpoint_of", "parse_document"]

DOCUMENT_LIMIT_BYTES = 1 << 20
"""The largest JSON body. *Source*: ours; 32 sources of a compose with names of 1,024 bytes take 200 KiB at worst."""

_CONDITIONS = ("ifGenerationMatch", "ifGenerationNotMatch", "ifMetagenerationMatch", "ifMetagenerationNotMatch")

SOURCE_CONDITIONS = (
    "ifSourceGenerationMatch",
    "ifSourceGenerationNotMatch",
    "ifSourceMetagenerationMatch",
    "ifSourceMetagenerationNotMatch",
)
"""Names of the conditions on what is copied."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """What a handler receives."""

    buckets: Buckets
    request: Request
    address: Address

    @property
    def query(self) -> Mapping[str, str]:
        """The request's parameters."""
        return self.request.query

    @property
    def headers(self) -> Mapping[str, str]:
        """The request's headers."""
        return self.request.headers

    @cached_property
    def endpoint(self) -> str:
        """Scheme and host as the client reached them, for links."""
        return endpoint_of(self.request)

    @cached_property
    def conditions(self) -> Preconditions:
        """The conditions on the object; raises InvalidConditionError."""
        return Preconditions.of(self.query, _CONDITIONS)

    @cached_property
    def source_conditions(self) -> Preconditions:
        """The conditions on what is copied; raises InvalidConditionError."""
        return Preconditions.of(self.query, SOURCE_CONDITIONS)

    @cached_property
    def fields(self) -> Fields | None:
        """What the answer is reduced to, None for all of it; raises JsonError (400)."""
        return parse_fields(self.query["fields"]) if "fields" in self.query else None

    def bucket(self) -> Bucket:
        """Returns the bucket; raises BucketMissingError."""
        return self.buckets.bucket(self.address.bucket)

    def found(self, *, generation: str = "generation") -> StoredObject:
        """Returns the object, if it is of the generation that the named parameter asks for; raises BucketMissingError
        or JsonError (404)."""
        return self.object_in(self.bucket(), self.address.key, self.query.get(generation))

    def object_in(self, bucket: Bucket, key: str, generation: str | None = None) -> StoredObject:
        """Returns an object of a bucket; raises JsonError (404): only the newest generation exists."""
        found = bucket.objects.get(key)
        if found is None or (generation and generation != str(found.generation)):
            raise missing(bucket.name, key)
        return found

    def integer(self, name: str, default: int, *, most: int) -> int:
        """Returns a numeric parameter, at most `most`; raises JsonError (400) for text or a number below 1."""
        value = self.query.get(name)
        if not value:
            return default
        if not value.isascii() or not value.isdecimal() or not (number := int(value[:12])):
            raise JsonError(
                400, f"Invalid value '{value[:64]}' for {name}; expected an integer from 1.", parameter=name
            )
        return min(number, most)

    async def document(self) -> dict[str, object]:
        """Returns the body as a mapping, empty where there is no body; raises JsonError (400) or BodyTooLargeError."""
        return parse_document(await self.request.body.read(DOCUMENT_LIMIT_BYTES))

    def answer(
        self,
        value: object,
        *,
        headers: list[tuple[bytes, bytes]] | None = None,
        selected: Mapping[str, object] | None = None,
    ) -> Response:
        """Returns a 200 with a document, or with what `fields` selects of it; raises JsonError (400).

        Args:
            value: the document.
            headers: further headers.
            selected: further fields of the document, which hold what `fields` selects and no more.
        """
        document = select(value, self.fields)
        if selected and isinstance(document, dict):
            document |= selected
        body = json.dumps(document, separators=(",", ":")).encode()
        return Response(status=200, headers=[JSON_HEADER, *(headers or [])], body=body)

    def answer_with(self, bucket: Bucket, found: StoredObject) -> Response:
        """Returns a 200 with an object's resource."""
        resource = object_resource(bucket.name, found, self.endpoint)
        return self.answer(resource, headers=[(b"etag", cast("str", resource["etag"]).encode())])


def endpoint_of(request: Request) -> str:
    """Returns scheme and host as the client reached them."""
    return f"{request.scheme}://{request.headers.get('host', 'localhost')}"


def missing(bucket_name: str, key: str) -> JsonError:
    """Returns the error for an object that does not exist."""
    return JsonError(404, f"No such object: {bucket_name}/{key}")


def parse_document(body: bytes) -> dict[str, object]:
    """Returns the mapping that a JSON body holds, empty for an empty body; raises JsonError (400)."""
    if not body.strip():
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise JsonError(400, "Parse Error: the body is not JSON.", reason="parseError") from None
    if not isinstance(value, dict):
        raise JsonError(400, f"Parse Error: the body holds {type(value).__name__}, expected an object.")
    return value
