"""Settings of a store: frozen values, checked when they are built, that hold no secret."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from torchbucket.errors import ConfigError
from torchbucket.public import public

__all__ = ["KIB", "MIB", "RetryConfig", "StoreConfig", "check_config", "check_int"]

KIB: Final = 1 << 10
MIB: Final = 1 << 20

# An id, with the domain that old ones have before a colon, or a number. Source: Google Cloud documentation, "Creating
# and managing projects", and "Getting a Cloud KMS resource ID" for the key.
_PROJECT = re.compile(r"(?:[a-z0-9.-]+:)?[a-z0-9][a-z0-9-]{0,62}")
_KMS_KEY = re.compile(r"projects/[^/\s]+/locations/[^/\s]+/keyRings/[^/\s]+/cryptoKeys/[^/\s]+")

_SSE = ("AES256", "aws:kms", "aws:kms:dsse")
_UPLOAD_CHECKSUMS = ("crc64nvme", "crc32c", "crc32")


def _wrong(config: object, name: str, accepted: str, value: object) -> ConfigError:
    return ConfigError(f"{type(config).__name__}.{name} must be {accepted}; got {value!r}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def check_int(config: object, name: str, least: int, most: int) -> None:
    """Raise ``ConfigError`` unless the field of that name is a whole number from ``least`` to ``most``."""
    value = getattr(config, name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _wrong(config, name, f"a whole number from {least} to {most}", value)


def _check_number(config: object, name: str, what: str, least: float, most: float) -> None:
    value = getattr(config, name)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not least <= value <= most:
        raise _wrong(config, name, f"{what} from {least:g} to {most:g}", value)


@public
@dataclass(frozen=True, kw_only=True, slots=True)
class RetryConfig:
    """Says how long to wait between the attempts of a request, and when to give up. Immutable, hashable, picklable.

    The waits are random, up to a bound that grows from ``initial_s`` by ``multiplier`` to ``maximum_s``; how the kinds
    of failure differ is told in ``docs/retries.md``.

    Args:
        initial_s: the bound of the first wait of a back-off, in seconds; 0 waits for nothing but what the server asks.
        multiplier: by how much the bound grows from one attempt to the next.
        maximum_s: bound on one wait, also on one that the server asks for with ``Retry-After``.
            *Source:* exponential back-off with full jitter, AWS Architecture Blog, "Exponential Backoff and Jitter".
        deadline_s: bound on one request with all its attempts and waits, from the first one's start. A read or write in
            parts is several requests. *Source:* the 600 s that gcs-torch-dataflux's README sets for downloads.
        max_attempts: requests made for one operation before its failure is reported; 1 means no retry.
            *Source:* ten attempts with these waits last through an outage of about 20 s, see ``docs/retries.md``.

    Raises:
        ConfigError: a field has a wrong value; the message names it, what it accepts and what arrived.
    """

    initial_s: float = 0.2
    multiplier: float = 2.0
    maximum_s: float = 20.0
    deadline_s: float = 600.0
    max_attempts: int = 10

    def __post_init__(self) -> None:
        _check_number(self, "initial_s", "seconds", 0.0, 60.0)
        _check_number(self, "multiplier", "a number", 1.0, 10.0)
        _check_number(self, "maximum_s", "seconds", 0.0, 3600.0)
        if self.maximum_s < self.initial_s:
            raise _wrong(self, "maximum_s", f"at least initial_s, which is {self.initial_s:g}", self.maximum_s)
        _check_number(self, "deadline_s", "seconds", 0.001, 7 * 86400.0)
        check_int(self, "max_attempts", 1, 100)


@public
@dataclass(frozen=True, kw_only=True, slots=True)
class StoreConfig:
    """Says how to reach a store and how hard to work for it. Immutable, hashable, picklable, and free of secrets.

    Credentials are no fields: on S3 they come from the environment, profiles, web identity or the instance, by
    botocore's own chain, on Cloud Storage from Application Default Credentials, in the process that uses them. A field
    that one provider alone knows is refused by a store of the other.

    Args:
        region: the bucket's region; None means ``AWS_REGION``, ``AWS_DEFAULT_REGION``, the profile's, else
            ``us-east-1``.
        endpoint: base URL of an S3-compatible service or of one that speaks Cloud Storage's protocols; None means
            ``AWS_ENDPOINT_URL_S3``, ``AWS_ENDPOINT_URL``, the profile's, else the region's, and on Cloud Storage
            ``STORAGE_EMULATOR_HOST``, else Google's.
        path_style: put the bucket into the path (True) or into the host's name (False); None means path for a custom
            endpoint, host otherwise.
        anonymous: send no signature and no token, for public buckets.
        profile: the profile in the AWS configuration files; None means ``AWS_PROFILE``, else ``default``.
        requester_pays: accept to be charged for requests to a requester-pays bucket.
        sse: server-side encryption of what is written: ``AES256``, ``aws:kms`` or ``aws:kms:dsse``; None means the
            bucket's own default.
        sse_kms_key_id: the key for ``aws:kms`` and ``aws:kms:dsse``; None means the account's default key.
        user_project: the Google Cloud project that pays for requests to a bucket whose requesters pay; None means the
            bucket's own, or the quota project of the user's credentials.
        kms_key_name: the Cloud KMS key that encrypts what is written to Cloud Storage, as
            ``projects/P/locations/L/keyRings/R/cryptoKeys/K``; None means the bucket's own default.
        part_size_bytes: length of the ranges of a large read and of the parts of a large write (which grow where an
            object would need more than 10,000). *Source:* 8 MiB is the smallest size at which one connection's
            first-byte wait of 20 ms is a fifth of its transfer at 100 MiB/s; at least 5 MiB is S3's own rule for parts.
        concurrency: requests in flight at once, over all operations of the store in one process.
            *Source:* ``docs/decisions/0001-transport-engine.md``.
        memory_budget_bytes: bound on what all open writers of the process hold together; where their stores differ, the
            largest counts. See ``docs/stores.md``.
        list_page_size: names asked for in one listing request. *Source:* S3 returns at most 1,000.
        retry: waits, attempts and deadline of a request.
        list_retry: those of the requests of a listing; None means as ``retry``.
        connect_timeout_s: bound on name look-up, connection and TLS handshake together.
        stall_timeout_s: a request that moves no byte for so many whole seconds is given up and tried again.
        hedge_share: bound on the share of reads (0 to 1) that are asked for a second time because their first byte is
            late or their body stands still; 0 turns such requests off. See ``docs/retries.md``.
            *Source:* about 5 % of load for a second request after the 95th percentile, "The Tail at Scale", CACM 2013.
        bandwidth_bytes_per_s: cap on the bytes received and sent, together, by the store in one process; None means no
            cap. With a cap no read is asked for twice.
        verify_checksums: compare whole objects that are read with the checksum that the provider keeps of them, and
            fetch them again where they differ; see ``docs/stores.md`` for what has none.
        upload_checksum: the checksum that what is written to S3 carries: ``crc64nvme``, or ``crc32c`` or ``crc32`` for
            S3-compatible services that do not know it. *Source:* CRC-64/NVME is the one that S3 itself gives to objects
            without any, S3 user guide, "Checking object integrity"; what each costs:
            ``torchbucket.store.http.checksums``.
        ca_bundle: file of trusted certificates (PEM); None means ``SSL_CERT_FILE``, ``AWS_CA_BUNDLE``,
            ``REQUESTS_CA_BUNDLE``, else certifi's.

    Raises:
        ConfigError: a field has a wrong value; the message names it, what it accepts and what arrived.
    """

    region: str | None = None
    endpoint: str | None = None
    path_style: bool | None = None
    anonymous: bool = False
    profile: str | None = None
    requester_pays: bool = False
    sse: str | None = None
    sse_kms_key_id: str | None = None
    user_project: str | None = None
    kms_key_name: str | None = None
    part_size_bytes: int = 8 * MIB
    concurrency: int = 64
    memory_budget_bytes: int = 128 * MIB
    list_page_size: int = 1000
    retry: RetryConfig = RetryConfig()
    list_retry: RetryConfig | None = None
    connect_timeout_s: float = 10.0
    stall_timeout_s: int = 30
    hedge_share: float = 0.05
    bandwidth_bytes_per_s: int | None = None
    verify_checksums: bool = True
    upload_checksum: str = "crc64nvme"
    ca_bundle: str | None = None

    def __post_init__(self) -> None:
        for name in ("region", "endpoint", "sse", "sse_kms_key_id", "user_project", "kms_key_name"):
            value = getattr(self, name)  # Becomes a part of addresses and headers.
            if value is not None and not (_is_text(value) and value.isascii()):
                raise _wrong(self, name, "None or a text of printable ASCII characters", value)
        for name in ("profile", "ca_bundle"):
            if getattr(self, name) is not None and not _is_text(getattr(self, name)):
                raise _wrong(self, name, "None or a text of printable characters", getattr(self, name))
        for name in ("anonymous", "requester_pays", "verify_checksums"):
            if not isinstance(getattr(self, name), bool):
                raise _wrong(self, name, "True or False", getattr(self, name))
        if self.path_style not in (None, True, False):
            raise _wrong(self, "path_style", "True, False or None", self.path_style)
        self._check_endpoint()
        if self.sse is not None and self.sse not in _SSE:
            raise _wrong(self, "sse", f"None or one of {', '.join(_SSE)}", self.sse)
        if self.sse_kms_key_id is not None and self.sse not in _SSE[1:]:
            raise ConfigError(f"StoreConfig.sse_kms_key_id needs sse 'aws:kms' or 'aws:kms:dsse'; sse is {self.sse!r}")
        if self.user_project is not None and not _PROJECT.fullmatch(self.user_project):
            raise _wrong(
                self, "user_project", "None or a project's id or number, such as 'my-project'", self.user_project
            )
        if self.kms_key_name is not None and not _KMS_KEY.fullmatch(self.kms_key_name):
            accepted = "None or projects/P/locations/L/keyRings/R/cryptoKeys/K"
            raise _wrong(self, "kms_key_name", accepted, self.kms_key_name)
        # Source of 5 MiB and 5 GiB: S3 user guide, "Multipart upload limits".
        check_int(self, "part_size_bytes", 5 * MIB, 5 * 1024 * MIB)
        check_int(self, "concurrency", 1, 1024)
        check_int(self, "memory_budget_bytes", 5 * MIB, 1 << 50)
        if self.memory_budget_bytes < self.part_size_bytes:
            raise ConfigError(
                f"StoreConfig.memory_budget_bytes must hold at least one part of {self.part_size_bytes} bytes; "
                f"got {self.memory_budget_bytes}"
            )
        check_int(self, "list_page_size", 1, 1000)
        if not isinstance(self.retry, RetryConfig):
            raise _wrong(self, "retry", "a RetryConfig", self.retry)
        if self.list_retry is not None and not isinstance(self.list_retry, RetryConfig):
            raise _wrong(self, "list_retry", "None or a RetryConfig", self.list_retry)
        _check_number(self, "connect_timeout_s", "seconds", 0.001, 3600.0)
        check_int(self, "stall_timeout_s", 1, 3600)
        _check_number(self, "hedge_share", "a number", 0.0, 1.0)
        if self.bandwidth_bytes_per_s is not None:
            check_int(self, "bandwidth_bytes_per_s", 256 * KIB, 1 << 50)
        if self.upload_checksum not in _UPLOAD_CHECKSUMS:
            raise _wrong(self, "upload_checksum", f"one of {', '.join(_UPLOAD_CHECKSUMS)}", self.upload_checksum)
        if self.ca_bundle is not None and not Path(self.ca_bundle).is_file():
            raise _wrong(self, "ca_bundle", "None or an existing file of certificates", self.ca_bundle)

    def _check_endpoint(self) -> None:
        if self.endpoint is None:
            return
        try:
            parts = urlsplit(self.endpoint)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or "@" in self.endpoint:
            # The value may hold a password, so it is not quoted.
            raise ConfigError(
                "StoreConfig.endpoint must be http://HOST[:PORT] or https://HOST[:PORT], without user name or password"
                + ("; one was given" if "@" in self.endpoint else f"; got {self.endpoint!r}")
            )
        if parts.query or parts.fragment:
            raise ConfigError("StoreConfig.endpoint must have no query and no fragment")

    def __repr__(self) -> str:
        shown = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default)
        return f"StoreConfig({', '.join(shown)})"


def check_config(config: object) -> None:
    """Raise ``ConfigError`` unless it is a ``StoreConfig`` or None."""
    if config is not None and not isinstance(config, StoreConfig):
        kind = type(config)
        raise ConfigError(
            f"config must be a torchbucket.StoreConfig or None; got {kind.__module__}.{kind.__qualname__}. "
            "docs/migrating.md has the counterparts of other libraries' settings"
        )
