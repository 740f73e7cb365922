"""OAuth access tokens: given for a service account's assertion, and recognised while they are valid."""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from buckettestbed.auth.accounts import ServiceAccount
from buckettestbed.auth.jwt import WRITING_SCOPES, JwtError, verified_claims

__all__ = ["GrantError", "Holder", "Tokens"]

_API_AUDIENCE = "https://storage.googleapis.com"
"""Audience of a self-signed JWT that has no scope. *Source*: AIP-4111."""


_GOOGLE_TOKEN_URI = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address, no secret.
"""Google's own token endpoint, which google-auth writes into an assertion's `aud` whatever the key file's `token_uri`
is. *Source*: its `service_account` module, 2.x."""


class GrantError(Exception):
    """The token endpoint refuses: OAuth's code and a description. *Source*: RFC 6749, section 5.2."""

    def __init__(self, code: str, description: str) -> None:
        self.code, self.description = code, description
        super().__init__(f"{code}: {description}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """Who holds a token, whether they may change anything by it, and until when, in seconds since the epoch."""

    email: str
    may_write: bool
    expires_s: float = float("inf")


class Tokens:
    """The access tokens of one testbed.

    Args:
        accounts: service accounts that may ask for tokens.
        token_uri: the token endpoint's address, which an assertion must be meant for.
        lifetime_s: how long a token is valid.
        known: tokens that are valid without having been asked for.
        now: the time in seconds since the epoch.
    """

    def __init__(
        self,
        accounts: Iterable[ServiceAccount],
        *,
        token_uri: str,
        lifetime_s: float,
        known: Mapping[str, Holder],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._accounts = {account.email: account for account in accounts}
        self._token_uri = token_uri
        self.lifetime_s = lifetime_s
        self._holders = dict(known)
        self._now = now

    def grant(self, assertion: str) -> str:
        """Returns a new access token for a JWT that a service account has signed; raises GrantError."""
        now_s = self._now()
        try:
            account, claims = verified_claims(assertion, self._accounts, now_s=now_s)
        except JwtError as error:
            raise GrantError("invalid_grant", f"{error}.") from None
        if claims.get("aud") not in (self._token_uri, _GOOGLE_TOKEN_URI):
            raise GrantError("invalid_grant", f"the JWT's aud is {claims.get('aud')!r}, expected {self._token_uri!r}.")
        scopes = str(claims.get("scope", "")).split()
        if not scopes:
            raise GrantError("invalid_scope", "the JWT has no scope.")
        self._holders = {token: holder for token, holder in self._holders.items() if holder.expires_s > now_s}
        token = "testbed." + secrets.token_urlsafe(96)
        self._holders[token] = Holder(
            email=account.email,
            may_write=account.may_write and not WRITING_SCOPES.isdisjoint(scopes),
            expires_s=now_s + self.lifetime_s,
        )
        return token

    def holder(self, token: str) -> Holder | None:
        """Returns who holds an access token, or None for one that is unknown or has expired.

        A JWT that a service account signed for itself is a token too, if it names a scope or this API.
        """
        now_s = self._now()
        found = self._holders.get(token)
        if found is not None:
            return found if found.expires_s > now_s else None
        try:
            account, claims = verified_claims(token, self._accounts, now_s=now_s)
        except JwtError:
            return None
        scopes = str(claims.get("scope", "")).split()
        if not scopes and str(claims.get("aud", "")).rstrip("/") != _API_AUDIENCE:
            return None
        may_write = account.may_write and (not scopes or not WRITING_SCOPES.isdisjoint(scopes))
        return Holder(email=account.email, may_write=may_write, expires_s=claims["exp"])
