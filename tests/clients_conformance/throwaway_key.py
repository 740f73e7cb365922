"""A service account that nobody has: what clients need to sign addresses."""

from __future__ import annotations

import functools

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

__all__ = ["service_account"]


@functools.cache
def service_account() -> dict[str, str]:
    """Returns the fields of a service account's key file; the key is made once a process."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return {
        "type": "service_account",
        "project_id": "project",
        "private_key_id": "throwaway",
        "private_key": pem.decode(),
        "client_email": "nobody@project.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": "http://127.0.0.1:9/token",
    }
