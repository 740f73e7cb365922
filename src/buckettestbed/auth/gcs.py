"""Who sent a GCS request, by its access token or signed URL, and whether they may do what it asks; and the token
endpoint. *Source* of codes: Cloud Storage, JSON API status and error codes, XML API status and error codes."""

import json
from collections.abc import Collection
from urllib.parse import parse_qs

from buckettestbed.auth.permissions import anonymous_may, is_write
from buckettestbed.auth.signed_url import SignedUrlError, SignedUrls
from buckettestbed.auth.tokens import GrantError, Tokens
from buckettestbed.gcs.service import GcsService, is_json_api
from buckettestbed.serving.dialect import Operation
from buckettestbed.serving.messages import BodyTooLargeError, Request, Response

__all__ = ["TOKEN_PATH", "GcsAuthenticator"]

TOKEN_PATH = "/token"  # noqa: S105 - an address, no secret.
"""Address of the token endpoint, as Google's own. A bucket of this name is reached all the same: the XML API has no
POST without a query."""

_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
"""*Source*: RFC 7523, section 2.1."""

_BODY_LIMIT_BYTES = 64 << 10
"""*Source*: ours; an assertion has about 1 KiB."""

_OF_A_SESSION = frozenset({"upload_chunk", "query_session", "cancel_session"})
"""What needs no token, because the session's address is one. *Source*: Cloud Storage, resumable uploads, session URI:
whoever has it may upload without further authentication."""

_CHALLENGE = 'Bearer realm="https://accounts.google.com/"'


class GcsAuthenticator:
    """Lets requests through that have a valid access token or a signed URL, and those that read a public bucket.

    Args:
        service: phrases refusals.
        tokens: access tokens.
        signed_urls: who signs URLs.
        public_buckets: buckets that anyone may read.
    """

    def __init__(
        self, service: GcsService, *, tokens: Tokens, signed_urls: SignedUrls, public_buckets: Collection[str] = ()
    ) -> None:
        self._service = service
        self._tokens = tokens
        self._signed_urls = signed_urls
        self._public_buckets = frozenset(public_buckets)

    def endpoint(self, request: Request) -> Operation | None:
        """Returns the operation of a request for a token, or None."""
        if request.method == "POST" and request.raw_path == TOKEN_PATH.encode() and not request.raw_query:
            return Operation(name="token")
        return None

    async def answer(self, request: Request, operation: Operation) -> Response | None:
        """Returns a token's answer, a refusal, or None for a request that may go on."""
        if operation.name == "token":
            return await self._token(request)
        is_json = is_json_api(request.raw_path)
        authorization = request.headers.get("authorization")
        if authorization is not None:
            kind, _, token = authorization.partition(" ")
            holder = self._tokens.holder(token.strip()) if kind.lower() == "bearer" else None
            if holder is None:
                return self._invalid(request, is_json=is_json)
            email, request.may_write = holder.email, holder.may_write
        else:
            try:
                signer = None if is_json else self._signed_urls.signer(request)
            except SignedUrlError as error:
                return self._service.error(request, status=error.status, code=error.code, message=error.message)
            if signer is None:
                return self._anonymous(request, operation, is_json=is_json)
            email, request.may_write = signer.email, signer.may_write
        if is_write(request, operation) and not request.may_write:
            message = f"{email} may only read, and {operation.name} changes something."
            return self._service.error(
                request, status=403, code="forbidden" if is_json else "AccessDenied", message=message
            )
        return None

    def _invalid(self, request: Request, *, is_json: bool) -> Response:
        """Returns the refusal of a token that is unknown or has expired."""
        if is_json:
            response = self._service.error(request, status=401, code="authError", message="Invalid Credentials")
        else:
            response = self._service.error(
                request, status=401, code="AuthenticationRequired", message="Authentication required."
            )
        challenge = f'{_CHALLENGE}, error="invalid_token"'
        response.headers.append((b"www-authenticate", challenge.encode()))
        return response

    def _anonymous(self, request: Request, operation: Operation, *, is_json: bool) -> Response | None:
        """Returns the refusal of a request without credentials, None where it needs none."""
        if is_json and operation.name in _OF_A_SESSION:
            return None
        if anonymous_may(operation, self._public_buckets):
            request.may_write = False
            return None
        message = (
            f"Anonymous caller does not have access: {operation.name} needs credentials here (or it may not exist)."
        )
        if not is_json:  # The XML API knows an anonymous caller, so this is 403 there.
            return self._service.error(request, status=403, code="AccessDenied", message=message)
        response = self._service.error(request, status=401, code="required", message=message)
        response.headers.append((b"www-authenticate", _CHALLENGE.encode()))
        return response

    async def _token(self, request: Request) -> Response:
        """Answers a request for an access token. *Source*: RFC 6749, sections 4 and 5; RFC 7523."""
        try:
            body = await request.body.read(_BODY_LIMIT_BYTES)
            fields = parse_qs(body.decode())
        except (BodyTooLargeError, ValueError):
            return _oauth_error(GrantError("invalid_request", "the body is no form of a sensible size."))
        if fields.get("grant_type") != [_GRANT]:
            return _oauth_error(GrantError("unsupported_grant_type", f"expected grant_type={_GRANT}."))
        assertions = fields.get("assertion", [])
        try:
            if len(assertions) != 1:
                raise GrantError("invalid_request", "expected one assertion.")
            token = self._tokens.grant(assertions[0])
        except GrantError as error:
            return _oauth_error(error)
        return _json(200, {"access_token": token, "expires_in": int(self._tokens.lifetime_s), "token_type": "Bearer"})


def _oauth_error(error: GrantError) -> Response:
    return _json(400, {"error": error.code, "error_description": error.description})


def _json(status: int, fields: dict[str, object]) -> Response:
    headers = [(b"content-type", b"application/json; charset=utf-8"), (b"cache-control", b"no-store")]
    return Response(status=status, headers=headers, body=json.dumps(fields).encode())
