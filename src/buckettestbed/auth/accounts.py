"""Service accounts as the testbed knows them, and what they have signed."""

from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

__all__ = ["ServiceAccount"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceAccount:
    """A service account: the public half of its key, and whether it may change anything."""

    email: str
    key_id: str
    public_key: rsa.RSAPublicKey
    may_write: bool

    def has_signed(self, text: bytes, signature: bytes) -> bool:
        """Returns whether this is the account's signature (RSA, PKCS #1 v1.5, SHA-256) of a text."""
        try:
            self.public_key.verify(signature, text, padding.PKCS1v15(), SHA256())
        except InvalidSignature:
            return False
        return True
