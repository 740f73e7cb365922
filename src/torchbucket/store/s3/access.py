"""Where a bucket is and who asks: endpoint, region and credentials, found as botocore finds them."""

from __future__ import annotations

import logging
import os
import re
import threading
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError, PermissionDeniedError
from torchbucket.store.http.renewed_credentials import RenewedCredentials
from torchbucket.store.s3.sigv4 import Credentials

__all__ = ["Access", "Place", "addressed"]

_log = logging.getLogger("torchbucket.s3")

_DEFAULT_REGION: Final = "us-east-1"

# Source: S3 API Reference, "Error responses".
_ENDED: Final = ("ExpiredToken", "TokenRefreshRequired")

# Source: botocore's own refresh begins 15 minutes before credentials end.
_RENEW_BEFORE_S: Final = 900.0

# A region's name, as one that comes from an answer and becomes part of a host's name must look.
_REGION: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")

# A bucket's name that can be part of a host's name which a wildcard certificate covers: no dots, no capitals.
_HOST_LABEL = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where requests for a bucket go.

    Args:
        origin: scheme and host, such as ``https://bucket.s3.eu-west-1.amazonaws.com``.
        host: the ``Host`` header that libcurl sends.
        prefix: what comes before a key in the encoded path: ``/`` or ``/bucket/``.
        region: the region that the signature names.
    """

    origin: str
    host: str
    prefix: str
    region: str


class Access:
    """Finds endpoint, region and credentials when they are first needed, and keeps the credentials fresh.

    ``prepare`` may ask the network and is called on callers' threads; the rest never does, once that was called. Safe
    for use by several threads. A forked child keeps what was found.
    """

    def __init__(self, bucket: str, config: StoreConfig) -> None:
        self._bucket = bucket
        self._config = config
        self._place: Place | None = None
        self._endpoint = ""
        self._followed = False
        self._source: Any = None
        self._renewed = RenewedCredentials(f"s3://{bucket}", self._fetch, renew_before_s=_RENEW_BEFORE_S)
        self._lock = threading.Lock()

    def renew(self) -> None:
        """Drop what may hold a lock of the parent's, in a forked child."""
        self._lock = threading.Lock()
        self._source = None
        self._renewed.renew()

    def prepare(self) -> None:
        """Find endpoint and credentials, and see that these are valid.

        Raises:
            PermissionDeniedError: none were found, or they could not be refreshed.
            ConfigError: the profile does not exist.
        """
        self.place()
        if not self._config.anonymous:
            self._renewed.prepare()

    def place(self) -> Place:
        """Where the bucket's requests go."""
        place = self._place
        if place is None:
            with self._lock:
                if self._place is None:  # another thread may have found it, and an answer have led on from there
                    self._place = self._find_place()
                place = self._place
        return place

    def follow(self, region: str) -> bool:
        """Turn, once, to the region that an answer has named as the bucket's; return whether to send the request again.

        That holds for requests that were on the way meanwhile, too.
        """
        with self._lock:
            place = self._place
            if place is None or region == place.region:
                return self._followed
            if self._followed or not _REGION.fullmatch(region):
                return False
            self._followed = True
            own = _provider_endpoints(place.region)
            if self._endpoint in own:
                # The first two name no region, which us-east-1 has for its own.
                number = own.index(self._endpoint)
                self._endpoint = _provider_endpoints(region)[number + 2 if number < 2 else number]
            self._place = self._addressed(region)
        _log.info("s3://%s: its region is %r; StoreConfig(region=%r) saves a request", self._bucket, region, region)
        return True

    def credentials(self) -> Credentials | None:
        """The credentials to sign with; None for anonymous access."""
        return self._renewed.value

    def refused(self, code: str | None) -> bool:
        """Note that the server refused the credentials; return whether another attempt may have better ones.

        Args:
            code: the provider's word; an answer to HEAD has none, and then this machine's clock says what is meant.
        """
        ended = code in _ENDED or (code is None and self._renewed.have_ended)
        return ended and self._renewed.refused()

    def _session(self) -> Any:
        import botocore.exceptions
        import botocore.session

        session = botocore.session.Session(profile=self._config.profile)
        try:
            session.get_scoped_config()
        except botocore.exceptions.ProfileNotFound:
            raise ConfigError(
                f"the AWS profile {self._config.profile or os.environ.get('AWS_PROFILE')!r} does not exist; correct "
                "StoreConfig.profile or AWS_PROFILE"
            ) from None
        return session

    def _find_place(self) -> Place:
        config = self._config
        region = config.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        endpoint = config.endpoint
        if endpoint is None or (region is None and not config.anonymous):
            session = self._session()
            region = region or session.get_config_variable("region") or _DEFAULT_REGION
            if endpoint is None:
                # Placeholders, with which botocore does not look for real keys: it needs none to find an endpoint.
                client = session.create_client(
                    "s3",
                    region_name=region,
                    aws_access_key_id="none",
                    aws_secret_access_key="none",  # noqa: S106
                )
                endpoint = str(client.meta.endpoint_url)
        self._endpoint = endpoint
        return self._addressed(region or _DEFAULT_REGION)

    def _addressed(self, region: str) -> Place:
        custom = self._endpoint not in _provider_endpoints(region) or self._config.endpoint is not None
        return addressed(self._bucket, self._endpoint, region, self._config.path_style, custom=custom)

    def _fetch(self, refused: bool) -> tuple[Credentials, float | None]:
        import botocore.exceptions

        # A new session reads files anew, and has forgotten what was granted before.
        session = self._session() if self._source is None or refused else None
        try:
            if session is not None:
                self._source = session.get_credentials()
            frozen = None if self._source is None else self._source.get_frozen_credentials()
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError, OSError, RuntimeError) as error:
            raise self._denied(
                f"the AWS credentials could not be read or refreshed: {type(error).__name__}; check profile, "
                "environment and the credentials' source"
            ) from None  # The original may hold what a program or a server said, word by word.
        if frozen is None:
            raise self._denied(
                "no AWS credentials were found. Give them by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, "
                "web identity or an instance role; for a public bucket use StoreConfig(anonymous=True)"
            )
        # Where botocore should rename this, credentials are still replaced once the server says that they have ended.
        ends = getattr(self._source, "_expiry_time", None)
        ends_s = None if ends is None else ends.timestamp()
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token), ends_s

    def _denied(self, advice: str) -> PermissionDeniedError:
        uri = f"s3://{self._bucket}"
        return PermissionDeniedError(f"{uri}: {advice}", operation="credentials", uri=uri)


def _provider_endpoints(region: str) -> tuple[str, ...]:
    return tuple(
        f"https://{host}.{suffix}"
        for host in ("s3", f"s3.{region}", f"s3-{region}", f"s3.dualstack.{region}", f"s3-fips.{region}")
        for suffix in ("amazonaws.com", "amazonaws.com.cn")
    )


def addressed(bucket: str, endpoint: str, region: str, path_style: bool | None, *, custom: bool) -> Place:
    """Put the bucket into the path or the host's name.

    Args:
        bucket: the bucket's name.
        endpoint: base URL; a path in it is kept.
        region: for the signature.
        path_style: what the user asked for, or None to decide.
        custom: the endpoint is not Amazon's own.

    Raises:
        ConfigError: the host's name was asked for and cannot hold the bucket's; or it is a directory bucket.
    """
    # Source: S3 user guide, "Directory bucket naming rules". Their endpoints and sessions are others.
    if bucket.endswith("--x-s3") and not custom:
        raise ConfigError(
            f"s3://{bucket} is a directory bucket (S3 Express One Zone), which is not supported: use a general purpose "
            "bucket, or s3torchconnector for this one"
        )
    parts = urlsplit(endpoint)
    fits = _HOST_LABEL.fullmatch(bucket) is not None or (parts.scheme == "http" and "_" not in bucket)
    in_path = path_style if path_style is not None else custom or not fits
    if not in_path and not fits:
        raise ConfigError(
            f"StoreConfig.path_style=False puts the bucket into the host's name, which {bucket!r} cannot be part of "
            "over TLS; leave path_style out or set it to True"
        )
    default_port = {"http": 80, "https": 443}[parts.scheme]
    name = parts.hostname or ""
    name = f"[{name}]" if ":" in name else name
    if not in_path:
        name = f"{bucket}.{name}"
    host = name if parts.port in (None, default_port) else f"{name}:{parts.port}"
    base = parts.path.rstrip("/")
    prefix = f"{base}/{bucket}/" if in_path else f"{base}/"
    return Place(origin=f"{parts.scheme}://{host}", host=host, prefix=prefix, region=region)
