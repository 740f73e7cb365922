"""Making the throw-away credentials of one testbed, and the files that clients read them from."""

import configparser
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from buckettestbed.auth.accounts import ServiceAccount
from buckettestbed.auth.credentials import (
    AWS_FILE,
    EXPIRED,
    EXPIRES,
    OWNER,
    READ_ONLY,
    TEMPORARY,
    TOKENS_FILE,
    VIEWER,
    AccessKey,
    Credentials,
    service_account_file,
)

__all__ = ["PROJECT", "TOKEN_LIFETIME_LIMIT_S", "ThrowAwayCredentials"]

PROJECT = "testbed"
"""Project that the service accounts belong to."""

TOKEN_LIFETIME_LIMIT_S = 43_200.0
"""*Source*: Google Cloud, IAM limits: an access token lives for at most 12 hours; so do credentials of an assumed role
of AWS."""

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
"""*Source*: AWS IAM user guide, unique identifiers: access key ids are base32 after a prefix of four letters, AKIA for
a long-term key and ASIA for a temporary one."""


class ThrowAwayCredentials:
    """Makes random credentials in a temporary folder of its own; `close` removes the folder.

    Args:
        token_uri: address of the testbed's own token endpoint, named in the service accounts' key files.
        token_lifetime_s: how long the temporary access key is valid from now on.
    """

    def __init__(self, *, token_uri: str, token_lifetime_s: float) -> None:
        self.token_uri, self.token_lifetime_s = token_uri, token_lifetime_s
        self.folder = Path(tempfile.mkdtemp(prefix="testbed-credentials-"))  # Mode 0700.
        now_s = time.time()
        keys = {
            OWNER: _access_key("AKIA"),
            READ_ONLY: _access_key("AKIA"),
            TEMPORARY: _access_key("ASIA", expires_s=now_s + token_lifetime_s),
            EXPIRED: _access_key("ASIA", expires_s=now_s - 60.0),
        }
        tokens = {name: _token() for name in (OWNER, VIEWER, EXPIRED)}
        try:
            self._write_aws_file(keys)
            self._write(TOKENS_FILE, json.dumps(tokens, indent=2))
            self.service_accounts = [self._service_account(name, token_uri) for name in (OWNER, VIEWER)]
            self.credentials = Credentials.read(self.folder)
        except BaseException:
            self.close()
            raise

    def _write_aws_file(self, keys: Mapping[str, AccessKey]) -> None:
        profiles = configparser.ConfigParser(interpolation=None, default_section="none")
        for name, key in keys.items():
            settings = {"aws_access_key_id": key.access_key_id, "aws_secret_access_key": key.secret_access_key}
            if key.session_token is not None:
                settings |= {"aws_session_token": key.session_token, EXPIRES: repr(key.expires_s)}
            profiles[name] = settings
        with self._create(AWS_FILE) as file:
            profiles.write(file)

    def _service_account(self, name: str, token_uri: str) -> ServiceAccount:
        """Makes a service account and writes its key file. *Source*: Google Cloud, service account key files."""
        private_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        email = f"{name}@{PROJECT}.iam.gserviceaccount.com"
        key_id = secrets.token_hex(20)
        pem = private_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        fields = {
            "type": "service_account",
            "project_id": PROJECT,
            "private_key_id": key_id,
            "private_key": pem.decode(),
            "client_email": email,
            "client_id": str(secrets.randbelow(10**21)).zfill(21),
            "token_uri": token_uri,
            "universe_domain": "googleapis.com",
        }
        self._write(service_account_file(name), json.dumps(fields, indent=2))
        return ServiceAccount(email=email, key_id=key_id, public_key=private_key.public_key(), may_write=name == OWNER)

    def _write(self, name: str, text: str) -> None:
        with self._create(name) as file:
            file.write(text)

    def _create(self, name: str) -> TextIO:
        return open(self.folder / name, "x", opener=lambda path, flags: os.open(path, flags, 0o600))

    def close(self) -> None:
        """Removes the files."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _access_key(prefix: str, *, expires_s: float | None = None) -> AccessKey:
    """Returns a random access key, with a session token where it expires."""
    return AccessKey(
        access_key_id=prefix + "".join(secrets.choice(_ALPHABET) for _ in range(16)),
        secret_access_key=secrets.token_urlsafe(30),
        session_token=None if expires_s is None else _token(),
        expires_s=expires_s,
    )


def _token() -> str:
    return secrets.token_urlsafe(96)
