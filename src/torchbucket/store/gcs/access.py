"""Where Cloud Storage is and who asks: endpoint and tokens, found as Google's own clients find them."""

from __future__ import annotations

import ipaddress
import os
from datetime import UTC
from functools import partial
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError, PermissionDeniedError
from torchbucket.store.http.refusal import shown
from torchbucket.store.http.renewed_credentials import RenewedCredentials
from torchbucket.store.transport.certificates import trusted_certificates

__all__ = ["GcsAccess"]

# Source: Cloud Storage documentation, "Request endpoints".
_ENDPOINT: Final = "https://storage.googleapis.com"

# What reading, writing and deleting objects takes. Source: Cloud Storage documentation, "OAuth 2.0 scopes".
_SCOPES: Final = ("https://www.googleapis.com/auth/devstorage.read_write",)

# Source: google-auth takes tokens with less to live for ended. The machine's metadata server gives the same token as
# long as that has more, so that asking it earlier would bring nothing.
_RENEW_BEFORE_S: Final = 225.0


class GcsAccess:
    """Finds the endpoint and credentials when they are first needed, and keeps the token fresh.

    ``prepare`` may ask the network and is called on callers' threads; ``lines`` and ``refused`` never do, and are
    called on the transport's. Safe for use by several threads. A forked child keeps the token and finds credentials of
    its own when that ends.

    Args:
        bucket: the bucket's name, for messages.
        config: endpoint, ``anonymous``, ``user_project`` and certificates.
    """

    def __init__(self, bucket: str, config: StoreConfig) -> None:
        self._uri = f"gs://{bucket}"
        self._config = config
        self._project = () if config.user_project is None else (f"x-goog-user-project: {config.user_project}",)
        self._origin: str | None = None
        self._anonymous = config.anonymous
        self._credentials: Any = None
        self._request: Any = None
        self._renewed = RenewedCredentials(self._uri, self._fetch, renew_before_s=_RENEW_BEFORE_S)

    def renew(self) -> None:
        """Drop what may hold a lock or a connection of the parent's, in a forked child."""
        self._credentials = self._request = None
        self._renewed.renew()

    def origin(self) -> str:
        """The base of every address, without a slash at its end."""
        origin = self._origin
        if origin is None:
            origin = self._find_origin()
        return origin

    def prepare(self) -> None:
        """See that a token is there and lasts; the first call finds the credentials.

        Raises:
            PermissionDeniedError: no credentials were found, or they give no token.
            ConfigError: google-auth is not installed, or a token would travel over plain HTTP.
        """
        self.origin()
        if not self._anonymous:
            self._renewed.prepare()

    def lines(self) -> tuple[str, ...]:
        """The headers that say who asks, and who pays."""
        lines = self._renewed.value
        return self._project if lines is None else lines

    def refused(self) -> bool:
        """Note that the server refused the token (401); return whether another attempt may have a better one."""
        return self._renewed.refused()

    def _find_origin(self) -> str:
        endpoint = self._config.endpoint
        if endpoint is None:
            emulator = os.environ.get("STORAGE_EMULATOR_HOST")
            if emulator:
                # As in Google's own clients: an emulator knows no credentials. Some of them give it without a scheme.
                endpoint = emulator if "://" in emulator else f"http://{emulator}"
                self._anonymous = True
        endpoint = (endpoint or _ENDPOINT).rstrip("/")
        parts = _parts(endpoint)
        if parts.scheme == "http" and not self._anonymous:
            # What the machine itself is credited with never travels in the clear, so it is not even asked for.
            if not os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
                self._anonymous = True
            elif not _is_loopback(parts.hostname or ""):
                raise ConfigError(
                    f"{self._uri}: StoreConfig.endpoint is plain HTTP to another machine, and an access token must not "
                    "travel in the clear; use https://, or StoreConfig(anonymous=True)"
                )
        self._origin = endpoint
        return endpoint

    def _fetch(self, refused: bool) -> tuple[tuple[str, ...], float | None]:  # noqa: ARG002  # always a new token
        google_auth, exceptions = _google_auth()
        try:
            request = self._auth_request()
            if self._credentials is None:
                self._credentials, _ = google_auth.default(scopes=_SCOPES, request=request)
            self._credentials.refresh(request)
        except (exceptions.GoogleAuthError, ValueError, OSError) as error:
            missing = isinstance(error, exceptions.DefaultCredentialsError)
            advice = (
                "no Google credentials were found. Give them by GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth "
                "application-default login` or the machine's service account; for a public bucket use "
                "StoreConfig(anonymous=True)"
                if missing
                else "the Google credentials give no access token; check the credentials' source and the network"
            )
            raise PermissionDeniedError(
                f"{self._uri}: {advice} ({type(error).__name__}: {_said(error, whole=missing)})",
                operation="credentials",
                uri=self._uri,
            ) from None  # The original may hold what the token's server said, word by word.
        lines = [f"authorization: Bearer {self._credentials.token}", *self._project]
        quota_project = getattr(self._credentials, "quota_project_id", None)
        if not self._project and quota_project:
            lines.append(f"x-goog-user-project: {quota_project}")
        expiry = self._credentials.expiry
        ends_s = None if expiry is None else expiry.replace(tzinfo=UTC).timestamp()
        return tuple(lines), ends_s

    def _auth_request(self) -> Any:
        if self._request is None:
            import requests
            from google.auth.transport.requests import Request

            session: Any = requests.Session()
            # With every request, since the session's own setting is worth less than REQUESTS_CA_BUNDLE.
            session.request = partial(session.request, verify=trusted_certificates(self._config))
            self._request = Request(session)
        return self._request


def _google_auth() -> tuple[Any, Any]:
    try:
        import google.auth
        import google.auth.exceptions
        import google.auth.transport.requests
    except ImportError as error:
        raise ConfigError(
            "gs:// with credentials needs google-auth and requests: pip install 'torchbucket[gcs]', or use "
            f"StoreConfig(anonymous=True) for a public bucket ({error})"
        ) from error
    return google.auth, google.auth.exceptions


def _parts(endpoint: str) -> SplitResult:
    try:
        StoreConfig(endpoint=endpoint)
    except ConfigError:
        # The value may hold a password, so it is not quoted.
        raise ConfigError(
            "STORAGE_EMULATOR_HOST must be http://HOST[:PORT], https://HOST[:PORT] or HOST[:PORT], without user name "
            "or password; correct or unset it"
        ) from None
    return urlsplit(endpoint)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _said(error: BaseException, *, whole: bool) -> str:
    """The first words of an error of the library below, without anything that might be a secret, unless ``whole``: what
    looks like one is a file's name then."""
    said = str(error.args[0]) if error.args else ""
    return said[:200] if whole and said.isprintable() else shown(said)
