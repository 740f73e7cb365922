"""The testbed's throw-away credentials, as files that clients take unchanged and as values for tests."""

import configparser
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

__all__ = [
    "AWS_FILE",
    "EXPIRED",
    "EXPIRES",
    "OWNER",
    "READ_ONLY",
    "TEMPORARY",
    "TOKENS_FILE",
    "VIEWER",
    "AccessKey",
    "Credentials",
    "service_account_file",
]

OWNER = "default"
"""Name of the access key, service account and token that may do everything."""

READ_ONLY = "read-only"
"""Name of the access key that may only read."""

TEMPORARY = "temporary"
"""Name of the access key with a session token, valid for the token lifetime from the testbed's start."""

EXPIRED = "expired"
"""Name of the access key whose session token, and of the bearer token that, expired before the testbed began."""

VIEWER = "viewer"
"""Name of the service account and the token that may only read."""

AWS_FILE = "aws-credentials"
"""A shared credentials file of AWS with one profile a name, for AWS_SHARED_CREDENTIALS_FILE."""

TOKENS_FILE = "tokens.json"
"""OAuth bearer tokens by name."""

EXPIRES = "x_expires_s"
"""Setting of the AWS file that AWS's own readers ignore: when a session token ends, in seconds since the epoch."""


def service_account_file(name: str) -> str:
    """Returns the file name of a service account's key, a key file of Google's form."""
    return f"service-account-{name}.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessKey:
    """An access key of S3. `expires_s`, since the epoch, is that of the session token, None where there is none."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """What the testbed accepts. Its repr has no secret.

    `folder` has the files, readable by their owner alone, removed when the testbed ends. `access_keys` are S3's by
    name (`default`, `read-only`, `temporary`, `expired`), also as the profiles of `aws_file`; `service_accounts` are
    the key files of GCS (`default`, `viewer`); `tokens` are bearer tokens of GCS (`default`, `viewer`, `expired`), the
    first two valid as long as the testbed runs.
    """

    folder: Path
    access_keys: Mapping[str, AccessKey]
    service_accounts: Mapping[str, Path]
    tokens: Mapping[str, str] = field(repr=False)

    @property
    def aws_file(self) -> Path:
        """The access keys as a shared credentials file of AWS."""
        return self.folder / AWS_FILE

    @classmethod
    def read(cls, folder: Path) -> "Credentials":
        """Returns the credentials that a running testbed wrote; raises OSError when the folder is gone."""
        profiles = configparser.ConfigParser(interpolation=None, default_section="none")
        profiles.read_string((folder / AWS_FILE).read_text())
        keys = {
            name: AccessKey(
                access_key_id=profiles[name]["aws_access_key_id"],
                secret_access_key=profiles[name]["aws_secret_access_key"],
                session_token=profiles[name].get("aws_session_token"),
                expires_s=profiles[name].getfloat(EXPIRES),
            )
            for name in profiles.sections()
        }
        accounts = {name: folder / service_account_file(name) for name in (OWNER, VIEWER)}
        tokens = json.loads((folder / TOKENS_FILE).read_text())
        return cls(
            folder=folder,
            access_keys=MappingProxyType(keys),
            service_accounts=MappingProxyType(accounts),
            tokens=MappingProxyType(tokens),
        )
