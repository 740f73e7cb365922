"""Signatures as requests present them: in the Authorization header, or in the query of a presigned address."""

import calendar
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["AWS4", "GOOG4", "MalformedSignatureError", "PresentedSignature", "Scheme", "from_header", "from_query"]

_TIMESTAMP = re.compile(r"\d{8}T\d{6}Z\Z", re.ASCII)
_SCOPE = re.compile(r"(?P<id>.+)/(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/(?P<terminator>[^/]+)\Z", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}\Z", re.ASCII)
_HEADER_NAMES = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+(?:;[!#$%&'*+.^_`|~0-9a-z-]+)*\Z")
"""*Source*: RFC 9110, field names are tokens; separated by semicolons here."""

_HEX = re.compile(r"(?:[0-9a-f]{2})+\Z", re.IGNORECASE)

EXPIRY_LIMIT_S = 604_800
"""The longest validity of a presigned address. *Source*: Amazon S3 API reference, X-Amz-Expires, and Cloud Storage,
signed URLs: seven days."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheme:
    """How one provider writes signatures: the algorithm, what its query parameters begin with, the credential scope's
    service and end."""

    algorithm: str
    query_prefix: str
    service: str
    terminator: str

    def parameter(self, name: str) -> str:
        """Returns the name of a query parameter."""
        return self.query_prefix + name


AWS4 = Scheme(algorithm="AWS4-HMAC-SHA256", query_prefix="X-Amz-", service="s3", terminator="aws4_request")
"""*Source*: Amazon S3 API reference, authenticating requests."""

GOOG4 = Scheme(algorithm="GOOG4-RSA-SHA256", query_prefix="X-Goog-", service="storage", terminator="goog4_request")
"""*Source*: Cloud Storage, V4 signing process."""


class MalformedSignatureError(ValueError):
    """A request names a signature but not as the scheme demands; the message says in which way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PresentedSignature:
    """What a request says about its signature.

    `identity` is whose it claims to be, `scope` the credential's scope, `signed_s` the time of signing since the
    epoch and `timestamp` the same as it was sent; `expires_s` is the validity of a presigned address, None for a
    header.
    """

    identity: str
    day: str
    region: str
    scope: str
    signed_headers: tuple[str, ...]
    signature: str
    timestamp: str
    signed_s: float
    expires_s: int | None


def from_header(authorization: str, timestamp: str, scheme: Scheme) -> PresentedSignature:
    """Returns the signature of an Authorization header.

    Args:
        authorization: its value, which begins with the scheme's algorithm.
        timestamp: the request's time of signing, `20261128T120000Z`.
        scheme: what to expect.

    Raises:
        MalformedSignatureError: a part is missing or not of its form.
    """
    parts = {}
    for part in authorization[len(scheme.algorithm) :].split(","):
        name, _, value = part.strip().partition("=")
        parts[name] = value
    for name in ("Credential", "SignedHeaders", "Signature"):
        if not parts.get(name):
            raise MalformedSignatureError(f"{name} is missing; expected Credential=…, SignedHeaders=…, Signature=…")
    return _presented(
        scheme,
        credential=parts["Credential"],
        signed_headers=parts["SignedHeaders"],
        signature=parts["Signature"],
        timestamp=timestamp,
        expires_s=None,
    )


def from_query(query: Mapping[str, str], scheme: Scheme) -> PresentedSignature:
    """Returns the signature of a presigned address.

    Raises:
        MalformedSignatureError: a parameter is missing or not of its form.
    """
    names = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")
    parts = {name: query.get(scheme.parameter(name), "") for name in names}
    missing = [scheme.parameter(name) for name in names if not parts[name]]
    if missing:
        raise MalformedSignatureError(f"{missing[0]} is missing; expected {', '.join(map(scheme.parameter, names))}")
    if parts["Algorithm"] != scheme.algorithm:
        raise MalformedSignatureError(
            f"{scheme.parameter('Algorithm')} is {parts['Algorithm']!r}, expected {scheme.algorithm}"
        )
    expires = parts["Expires"]
    if not _NUMBER.match(expires) or not 1 <= int(expires) <= EXPIRY_LIMIT_S:
        raise MalformedSignatureError(
            f"{scheme.parameter('Expires')} is {expires!r}, expected 1 to {EXPIRY_LIMIT_S} seconds"
        )
    return _presented(
        scheme,
        credential=parts["Credential"],
        signed_headers=parts["SignedHeaders"],
        signature=parts["Signature"],
        timestamp=parts["Date"],
        expires_s=int(expires),
    )


def _presented(
    scheme: Scheme, *, credential: str, signed_headers: str, signature: str, timestamp: str, expires_s: int | None
) -> PresentedSignature:
    if not _TIMESTAMP.match(timestamp):
        raise MalformedSignatureError(f"the time of signing is {timestamp!r}, expected the form 20261128T120000Z")
    try:
        signed_s = calendar.timegm(time.strptime(timestamp, "%Y%m%dT%H%M%SZ"))
    except ValueError:
        raise MalformedSignatureError(f"the time of signing, {timestamp!r}, does not exist") from None
    found = _SCOPE.match(credential)
    if found is None or (found["service"], found["terminator"]) != (scheme.service, scheme.terminator):
        raise MalformedSignatureError(
            f"the Credential is {credential!r}, expected ID/YYYYMMDD/REGION/{scheme.service}/{scheme.terminator}"
        )
    if found["day"] != timestamp[:8]:
        raise MalformedSignatureError(
            f"the Credential's date {found['day']} is another than that of the time of signing, {timestamp}"
        )
    if not _HEX.match(signature):
        raise MalformedSignatureError("the signature is not hexadecimal")
    names = tuple(signed_headers.lower().split(";"))
    if not _HEADER_NAMES.match(signed_headers.lower()) or "host" not in names:
        raise MalformedSignatureError(f"the signed headers are {signed_headers!r}, expected names with host among them")
    return PresentedSignature(
        identity=found["id"],
        day=found["day"],
        region=found["region"],
        scope=credential[len(found["id"]) + 1 :],
        signed_headers=names,
        signature=signature.lower(),
        timestamp=timestamp,
        signed_s=float(signed_s),
        expires_s=expires_s,
    )
