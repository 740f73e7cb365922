"""AWS's signature version 4 of requests and of the chunks of their bodies. *Source*: Amazon S3 API reference,
"Signature Calculations for the Authorization Header" and "… Transferring Payload in Multiple Chunks"."""

import hashlib
import hmac

from buckettestbed.auth.presented import AWS4, PresentedSignature
from buckettestbed.s3.errors import S3Error

__all__ = ["SignedChunks", "hexadecimal_signature", "signing_key"]

_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


def signing_key(secret_access_key: str, presented: PresentedSignature) -> bytes:
    """Returns the key of one day, region and service, derived from a secret access key."""
    key = b"AWS4" + secret_access_key.encode()
    for part in (presented.day, presented.region, AWS4.service, AWS4.terminator):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def hexadecimal_signature(key: bytes, text: bytes) -> str:
    """Returns the signature of a string to sign."""
    return hmac.digest(key, text, "sha256").hex()


class SignedChunks:
    """Checks the signatures of an aws-chunked body, each of which covers the one before.

    Args:
        key: the signing key of the request.
        presented: the request's own signature, from which the chain starts.
        with_trailer: the trailing headers are signed too.
    """

    def __init__(self, key: bytes, presented: PresentedSignature, *, with_trailer: bool) -> None:
        self._key = key
        self._timestamp, self._scope = presented.timestamp, presented.scope
        self._previous = presented.signature
        self._with_trailer = with_trailer
        self._digest = hashlib.sha256()

    def update(self, data: bytes) -> None:
        """Takes in the next bytes of the chunk that arrives."""
        self._digest.update(data)

    def end_chunk(self, signature: str | None) -> None:
        """Checks the chunk that has arrived whole; raises SignatureDoesNotMatch."""
        self._check("AWS4-HMAC-SHA256-PAYLOAD", [_EMPTY_SHA256, self._digest.hexdigest()], signature, "a chunk")
        self._digest = hashlib.sha256()

    def end_trailer(self, trailer: bytes, signature: str | None) -> None:
        """Checks the trailing headers; raises SignatureDoesNotMatch."""
        if self._with_trailer:
            self._check("AWS4-HMAC-SHA256-TRAILER", [hashlib.sha256(trailer).hexdigest()], signature, "the trailer")

    def _check(self, algorithm: str, digests: list[str], signature: str | None, what: str) -> None:
        text = "\n".join([algorithm, self._timestamp, self._scope, self._previous, *digests])
        expected = hexadecimal_signature(self._key, text.encode())
        if signature is None or not hmac.compare_digest(expected.encode(), signature.encode()):
            found = "has no signature" if signature is None else "has another signature than the one calculated for it"
            raise S3Error(
                "SignatureDoesNotMatch",
                f"{what[0].upper()}{what[1:]} of the aws-chunked body {found}.",
                fields={"StringToSign": text},
            )
        self._previous = expected
