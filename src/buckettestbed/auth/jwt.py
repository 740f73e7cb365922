"""JSON web tokens that a service account signs: for the token endpoint, or as bearer tokens of its own.

Parsed here and verified by `cryptography`, because the clients under test make them with google-auth's `jwt` module,
which as their judge would agree with itself. *Source*: RFC 7519 and 7523; Google, using OAuth 2.0 for server to server
applications; AIP-4111, self-signed JWT.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, cast

from buckettestbed.auth.accounts import ServiceAccount

__all__ = ["WRITING_SCOPES", "JwtError", "verified_claims"]

WRITING_SCOPES = frozenset(
    "https://www.googleapis.com/auth/" + name
    for name in ("cloud-platform", "devstorage.full_control", "devstorage.read_write")
)
"""OAuth scopes that permit changes. *Source*: Cloud Storage, OAuth scopes."""

_LIFETIME_LIMIT_S = 3600
"""*Source*: Google, using OAuth 2.0 for server to server applications, `exp`: at most one hour after `iat`."""

_LEEWAY_S = 60
"""*Source*: ours; the clocks of client and testbed are one, but both round to seconds."""


class JwtError(ValueError):
    """A token that is not accepted; the message says why and shows nothing of it."""


def verified_claims(
    token: str, accounts: Mapping[str, ServiceAccount], *, now_s: float
) -> tuple[ServiceAccount, Mapping[str, Any]]:
    """Returns the account that signed a token, and its claims.

    Args:
        token: the token's three parts.
        accounts: service accounts by e-mail address.
        now_s: the time in seconds since the epoch.

    Raises:
        JwtError: it is malformed, of an unknown account, not signed by it, not valid now, or valid for too long.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise JwtError("a JWT has three parts")
    header, claims = _decoded(parts[0]), _decoded(parts[1])
    if header.get("alg") != "RS256":
        raise JwtError("the JWT's alg is not RS256")
    account = accounts.get(str(claims.get("iss")))
    if account is None:
        raise JwtError("account not found")
    if header.get("kid", account.key_id) != account.key_id or not account.has_signed(
        f"{parts[0]}.{parts[1]}".encode(), _bytes(parts[2])
    ):
        raise JwtError("invalid JWT signature")
    issued_s, expires_s = claims.get("iat"), claims.get("exp")
    if not isinstance(issued_s, int | float) or not isinstance(expires_s, int | float):
        raise JwtError("the JWT has no iat and exp in seconds")
    if not (issued_s <= now_s + _LEEWAY_S and now_s <= expires_s <= issued_s + _LIFETIME_LIMIT_S):
        raise JwtError(f"the JWT must be valid now and for at most {_LIFETIME_LIMIT_S} s; check its iat and exp")
    return account, claims


def _bytes(part: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise JwtError("a part of the JWT is not base64url") from None


def _decoded(part: str) -> Mapping[str, Any]:
    try:
        decoded = json.loads(_bytes(part))
    except ValueError as error:
        raise JwtError("a part of the JWT is not JSON") from error
    if not isinstance(decoded, dict):
        raise JwtError("a part of the JWT is not a JSON object")
    return cast("Mapping[str, Any]", decoded)
