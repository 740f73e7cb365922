"""Signed URLs of GCS, made with a service account's key: version 4, and version 2, which google-cloud-storage still
makes unless told otherwise. *Source*: Cloud Storage, V4 signing process and V2 signing process."""

import base64
import binascii
import time
from collections.abc import Callable, Iterable, Sequence

from buckettestbed.auth.accounts import ServiceAccount
from buckettestbed.auth.canonical import canonical_request, string_to_sign
from buckettestbed.auth.presented import GOOG4, MalformedSignatureError, PresentedSignature, from_query
from buckettestbed.serving.messages import Request

__all__ = ["SignedUrlError", "SignedUrls"]

_SKEW_LIMIT_S = 900
"""*Source*: Cloud Storage, authentication with signatures: a request's time may differ by 15 minutes."""


_GOOGLE_HOST = "storage.googleapis.com"
"""The host that obstore signs for whatever its endpoint is; the testbed stands for it. *Source*: what obstore 0.12
sends."""


class SignedUrlError(Exception):
    """A signed URL is refused: status, code and message of the answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message
        super().__init__(f"{code}: {message}")


class SignedUrls:
    """Checks signed URLs.

    Args:
        accounts: service accounts that sign.
        now: the time in seconds since the epoch.
    """

    def __init__(self, accounts: Iterable[ServiceAccount], *, now: Callable[[], float] = time.time) -> None:
        self._accounts = {account.email: account for account in accounts}
        self._now = now

    def signer(self, request: Request) -> ServiceAccount | None:
        """Returns the account that signed a request's URL, or None where it is not signed.

        Raises:
            SignedUrlError: it is malformed, not valid now, or not signed by the account it names.
        """
        if any(name in request.query for name in ("X-Goog-Algorithm", "X-Goog-Credential", "X-Goog-Signature")):
            return self._signer_by_version_4(request)
        if "GoogleAccessId" in request.query:
            return self._signer_by_version_2(request)
        return None

    def _signer_by_version_4(self, request: Request) -> ServiceAccount:
        try:
            presented = from_query(request.query, GOOG4)
        except MalformedSignatureError as error:
            raise SignedUrlError(400, "InvalidArgument", f"The signed URL is malformed: {error}.") from None
        now_s = self._now()
        if presented.signed_s > now_s + _SKEW_LIMIT_S:
            raise SignedUrlError(403, "AccessDenied", f"The signed URL is valid from {presented.timestamp} on.")
        self._check_expiry(presented.signed_s + (presented.expires_s or 0), now_s)
        texts = [_text(request, presented, host) for host in (request.headers.get("host", ""), _GOOGLE_HOST)]
        return self._verified(presented.identity, texts, bytes.fromhex(presented.signature))

    def _signer_by_version_2(self, request: Request) -> ServiceAccount:
        expires = request.query.get("Expires", "")
        if not (expires.isascii() and expires.isdecimal()):
            raise SignedUrlError(400, "InvalidArgument", f"Expires is {expires!r}, expected seconds since the epoch.")
        self._check_expiry(float(expires[:18]), self._now())
        headers = request.headers
        extensions = (
            f"{name}:{' '.join(headers[name].split())}" for name in sorted(headers) if name.startswith("x-goog-")
        )
        lines = [
            request.method,
            headers.get("content-md5", ""),
            headers.get("content-type", ""),
            expires,
            *extensions,
            request.raw_path.decode("latin-1"),
        ]
        try:
            signature = base64.b64decode(request.query.get("Signature", ""), validate=True)
        except (binascii.Error, ValueError):
            raise SignedUrlError(400, "InvalidArgument", "The signature is not base64.") from None
        return self._verified(request.query["GoogleAccessId"], ["\n".join(lines).encode("latin-1")], signature)

    def _check_expiry(self, expires_s: float, now_s: float) -> None:
        if expires_s < now_s:
            raise SignedUrlError(400, "ExpiredToken", f"The signed URL expired {now_s - expires_s:.0f} s ago.")

    def _verified(self, email: str, texts: Sequence[bytes], signature: bytes) -> ServiceAccount:
        """Returns the account of this address, which must have signed one of the texts."""
        account = self._accounts.get(email)
        if account is None:
            raise SignedUrlError(403, "AccessDenied", f"No service account is called {email!r}.")
        if not any(account.has_signed(text, signature) for text in texts):
            raise SignedUrlError(
                403,
                "SignatureDoesNotMatch",
                "The signature calculated for the request is another than the one provided; check the service account's"
                f" key and how the URL is signed. The string to sign was: {texts[0].decode('utf-8', errors='replace')}",
            )
        return account


def _text(request: Request, presented: PresentedSignature, host: str) -> bytes:
    """Returns the string to sign of version 4 for a host."""
    canonical = canonical_request(
        method=request.method,
        raw_path=request.raw_path,
        raw_query=request.raw_query,
        headers={**request.headers, "host": host},
        signed_headers=presented.signed_headers,
        payload=request.headers.get("x-goog-content-sha256", "UNSIGNED-PAYLOAD"),
        signature_parameter=GOOG4.parameter("Signature"),
    )
    return string_to_sign(
        algorithm=GOOG4.algorithm, timestamp=presented.timestamp, scope=presented.scope, canonical=canonical
    )
