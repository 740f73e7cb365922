"""Where Cloud Storage is and who asks: endpoint and tokens, found as Google's own clients find them."""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import threading
import time
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError, PermissionDeniedError
from torchbucket.store.transport.certificates import trusted_certificates

__all__ = ["GcsAccess"]

_log = logging.getLogger("torchbucket.gcs")

# Source: Cloud Storage documentation, "Request endpoints".
_ENDPOINT: Final = "https://storage.googleapis.com"

# What reading, writing and deleting objects takes. Source: Cloud Storage documentation, "OAuth 2.0 scopes".
_SCOPES: Final = ("https://www.googleapis.com/auth/devstorage.read_write",)

# A token is replaced so long before it ends, that a request may wait in line and be retried with it. Google's tokens
# last an hour, and google-auth takes those with less than 225 s left for ended.
_RENEW_BEFORE_S: Final = 300.0

# After a renewal that failed, a token that is still valid is used on for so long.
_RETRY_RENEWAL_S: Final = 20.0

# So long after a renewal, a refusal (401) is taken to concern the token before: it was on the way meanwhile.
_OLD_NEWS_S: Final = 5.0

# A token younger than this is not replaced because of a refusal: another one would be refused as well.
_RENEW_AGAIN_S: Final = 60.0

# A text as long and dense as a token or key, in an error of the library below.
_SECRET: Final = re.compile(r"[A-Za-z0-9_\-.+/=]{48,}")


@dataclass(frozen=True, slots=True, repr=False)
class _Token:
    """An access token in its header, and its times on the clock of ``time.time``. It shows nothing of itself."""

    lines: tuple[str, ...]
    fetched_s: float
    ends_s: float | None
    is_first: bool

    def __repr__(self) -> str:
        return "_Token(…)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a token does not cross to another process; each one finds its own")

    def is_due(self, now_s: float) -> bool:
        """Whether it should be replaced."""
        return self.ends_s is not None and now_s >= self.ends_s - _RENEW_BEFORE_S

    def is_usable(self, now_s: float) -> bool:
        """Whether it is still valid, with time for a request to arrive."""
        return self.ends_s is None or now_s < self.ends_s - 10.0


class GcsAccess:
    """Finds the endpoint and credentials when they are first needed, and keeps the token fresh.

    ``prepare`` may ask the network and is called on callers' threads; ``lines`` never does, and is called on the
    transport's. Safe for use by several threads. A forked child keeps a token that is valid and finds credentials of
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
        self._token: _Token | None = None
        self._refused = False
        self._retry_s = 0.0
        self._lock = threading.Lock()

    def renew(self) -> None:
        """Drop what may hold a lock or a connection of the parent's, in a forked child."""
        self._lock = threading.Lock()
        self._credentials = self._request = None

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
        if self._anonymous:
            return
        now_s = time.time()
        token = self._token
        if token is not None and not self._refused and not token.is_due(now_s):
            return
        usable = token is not None and not self._refused and token.is_usable(now_s)
        if usable and now_s < self._retry_s:
            return
        # While one caller renews, the others go on with what is valid.
        if not self._lock.acquire(blocking=not usable):
            return
        try:
            if self._token is not token and not self._refused:
                return  # Another caller did it meanwhile.
            self._fetch(usable)
        finally:
            self._lock.release()

    def lines(self) -> tuple[str, ...]:
        """The headers that say who asks, and who pays."""
        token = self._token
        return self._project if token is None else token.lines

    def refused(self) -> bool:
        """Note that the server refused the token (401); return whether another attempt may have a better one.

        A new one is fetched on a thread of its own, once: where the server refuses that as well, it is final.
        """
        token = self._token
        if self._anonymous or token is None:
            return False
        age_s = time.time() - token.fetched_s
        if self._refused or (age_s < _OLD_NEWS_S and not token.is_first):
            return True
        if age_s < _RENEW_AGAIN_S:
            return False
        self._refused = True
        threading.Thread(target=self._renew_refused, name="torchbucket-token", daemon=True).start()
        return True

    def _renew_refused(self) -> None:
        with self._lock:
            if not self._refused:
                return
            try:
                self._fetch(False)
            except Exception as error:  # noqa: BLE001  # the requests themselves fail, and say so
                _log.warning("%s: the refused token could not be replaced: %s", self._uri, error)
                self._refused = False
                token = self._token
                if token is not None:
                    # Its age says that there is no better one for now.
                    self._token = _Token(token.lines, time.time() - 2 * _OLD_NEWS_S, token.ends_s, False)

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

    def _fetch(self, tolerant: bool) -> None:
        """Get a token, with the lock held; where ``tolerant``, a failure leaves the one that is there."""
        google_auth, exceptions = _google_auth()
        try:
            request = self._auth_request()
            if self._credentials is None:
                self._credentials, _ = google_auth.default(scopes=_SCOPES, request=request)
            self._credentials.refresh(request)
        except (exceptions.GoogleAuthError, ValueError, OSError) as error:
            if tolerant:
                self._retry_s = time.time() + _RETRY_RENEWAL_S
                _log.warning("%s: the access token could not be renewed yet: %s", self._uri, _shown(error))
                return
            missing = isinstance(error, exceptions.DefaultCredentialsError)
            advice = (
                "no Google credentials were found. Give them by GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth "
                "application-default login` or the machine's service account; for a public bucket use "
                "StoreConfig(anonymous=True)"
                if missing
                else "the Google credentials give no access token; check the credentials' source and the network"
            )
            raise PermissionDeniedError(
                f"{self._uri}: {advice} ({type(error).__name__}: {_shown(error, whole=missing)})",
                operation="credentials",
                uri=self._uri,
            ) from None  # The original may hold what the token's server said, word by word.
        lines = [f"authorization: Bearer {self._credentials.token}", *self._project]
        quota_project = getattr(self._credentials, "quota_project_id", None)
        if not self._project and quota_project:
            lines.append(f"x-goog-user-project: {quota_project}")
        expiry = self._credentials.expiry
        ends_s = None if expiry is None else expiry.replace(tzinfo=UTC).timestamp()
        self._token = _Token(tuple(lines), time.time(), ends_s, is_first=self._token is None)
        self._refused = False

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


def _parts(endpoint: str) -> Any:
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in endpoint
        usable = usable and parts.port != 0 and not parts.query and not parts.fragment
    except ValueError:
        usable = False
    if not usable:
        # The value may hold a password, so it is not quoted.
        raise ConfigError(
            "STORAGE_EMULATOR_HOST must be http://HOST[:PORT], https://HOST[:PORT] or HOST[:PORT], without user name "
            "or password; correct or unset it"
        )
    return parts


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(error: BaseException, *, whole: bool = False) -> str:
    """The first words of an error of the library below, without anything that might be a secret, unless ``whole``: what
    looks like one is a file's name then."""
    said = str(error.args[0]) if error.args else ""
    printable = "".join(character if character.isprintable() else " " for character in said)
    return (printable if whole else _SECRET.sub("…", printable))[:200]
