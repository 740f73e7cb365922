"""The canonical form of a request, which AWS's signature version 4 and Google's version 4 of signed URLs share.

The implementation is ours, and not botocore's signer turned round, because botocore signs for boto3 and s3fs: as
their judge it would agree with itself. *Source*: Amazon S3 API reference, "Authenticating Requests: Using the
Authorization Header"; Cloud Storage, "V4 signing process".
"""

import hashlib
from collections.abc import Mapping, Sequence
from urllib.parse import quote_from_bytes, unquote_to_bytes

__all__ = ["canonical_request", "percent_encoded", "string_to_sign"]


def canonical_request(
    *,
    method: str,
    raw_path: bytes,
    raw_query: bytes,
    headers: Mapping[str, str],
    signed_headers: Sequence[str],
    payload: str,
    signature_parameter: str,
) -> bytes:
    """Returns the canonical form of a request as its sender must have signed it.

    Args:
        method: of the request.
        raw_path: as it was sent; each byte is encoded once, and nothing is normalised.
        raw_query: as it was sent.
        headers: by lower-case name, values as Latin-1 text; one that is signed but was not sent counts as empty.
        signed_headers: names in lower case, in the order the sender gave.
        payload: the body's SHA-256 in hexadecimal, or the word that stands for it.
        signature_parameter: parameter of the query that is not signed, because it is the signature.
    """
    lines = [
        method.encode(),
        percent_encoded(unquote_to_bytes(raw_path), keep="/"),
        _canonical_query(raw_query, signature_parameter.encode()),
        *(
            name.encode("latin-1") + b":" + b" ".join(headers.get(name, "").encode("latin-1").split())
            for name in signed_headers
        ),
        b"",
        ";".join(signed_headers).encode("latin-1"),
        payload.encode("latin-1"),
    ]
    return b"\n".join(lines)


def string_to_sign(*, algorithm: str, timestamp: str, scope: str, canonical: bytes) -> bytes:
    """Returns what the sender computed the signature of.

    Args:
        algorithm: its name.
        timestamp: `20261128T120000Z`.
        scope: the credential's, `date/region/service/terminator`.
        canonical: the canonical request.
    """
    return "\n".join([algorithm, timestamp, scope, hashlib.sha256(canonical).hexdigest()]).encode()


def percent_encoded(value: bytes, *, keep: str = "") -> bytes:
    """Returns bytes percent-encoded except A-Z a-z 0-9 - . _ ~ and what is to be kept."""
    return quote_from_bytes(value, safe="~" + keep).encode()


def _canonical_query(raw_query: bytes, without: bytes) -> bytes:
    """Returns the query, each name and value encoded anew, sorted, empty values written with `=`."""
    pairs = []
    for item in filter(None, raw_query.replace(b"+", b" ").split(b"&")):
        name, _, value = map(unquote_to_bytes, item.partition(b"="))
        if name != without:
            pairs.append((percent_encoded(name), percent_encoded(value)))
    return b"&".join(name + b"=" + value for name, value in sorted(pairs))
