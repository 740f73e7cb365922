"""Credentials that end, renewed in time on a thread of their own, so that neither transfers nor forks wait for it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from torchbucket.store.daemon_thread import DaemonThread

__all__ = ["RenewedCredentials"]

T = TypeVar("T")

_log = logging.getLogger("torchbucket.credentials")

# Between two renewals, of which the first failed or brought what will end as soon. Source: ours.
_RENEWAL_INTERVAL_S: Final = 20.0

# With less time to live credentials count as ended: a request has to arrive, and hosts' clocks differ. Source: ours.
_LEAST_LIFE_S: Final = 10.0

# So long after a renewal, a refusal is taken to concern what was there before: the request was on the way meanwhile.
_OLD_NEWS_S: Final = 5.0

# What is younger than this is not replaced because of a refusal: another one would be refused as well.
_RENEW_AGAIN_S: Final = 60.0


@dataclass(frozen=True, slots=True, repr=False)
class _Fetched(Generic[T]):
    """What was fetched, and its times on the clock of ``time.time``. Its representation shows nothing of it."""

    value: T
    fetched_s: float
    ends_s: float | None

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("credentials do not cross to another process; each one finds its own")


class RenewedCredentials(Generic[T]):
    """Keeps credentials fresh: due ones are renewed aside, refused ones replaced, and only ended ones waited for.

    ``prepare`` may wait and is called on callers' threads; ``value``, ``refused`` and ``have_ended`` never do, and are
    called on the transport's. Safe for use by several threads. A forked child keeps what it has.

    Args:
        uri: the bucket's address, for messages.
        fetch: asks for credentials, and returns them with the time when they end, or None; called by one thread at a
            time. Its argument says that those before were refused. What it raises must show no secret.
        renew_before_s: how long before they end credentials are due.
    """

    def __init__(self, uri: str, fetch: Callable[[bool], tuple[T, float | None]], *, renew_before_s: float) -> None:
        self._uri = uri
        self._fetch = fetch
        self._renew_before_s = renew_before_s
        self._fetched: _Fetched[T] | None = None
        self._refused = False
        self._next_renewal_s = 0.0
        self._old_news_until_s = 0.0
        self._final_until_s = 0.0
        self._lock = threading.Lock()

    def renew(self) -> None:
        """Forget the parent's lock and its renewal under way, in a forked child."""
        self._lock = threading.Lock()
        self._refused = False
        self._next_renewal_s = 0.0

    @property
    def value(self) -> T | None:
        """What to sign with now; None before ``prepare``. A renewal that is due is begun, and not waited for."""
        fetched = self._fetched
        if fetched is None:
            return None
        if fetched.ends_s is not None and not self._refused:
            now_s = time.time()
            if now_s >= fetched.ends_s - self._renew_before_s:
                self._renew_aside(now_s)
        return fetched.value

    @property
    def have_ended(self) -> bool:
        """Whether, by this machine's clock, the credentials are not valid any more."""
        fetched = self._fetched
        return fetched is not None and fetched.ends_s is not None and time.time() >= fetched.ends_s

    def prepare(self) -> None:
        """See that there are credentials with some time to live, and wait for them where there are none.

        Raises:
            Exception: what ``fetch`` raised.
        """
        fetched, now_s = self._fetched, time.time()
        if fetched is not None and not self._refused:
            if fetched.ends_s is None or now_s < fetched.ends_s - self._renew_before_s:
                return
            # What was just fetched is used even where it seems to have ended: the clock may be wrong.
            if now_s < max(fetched.ends_s - _LEAST_LIFE_S, fetched.fetched_s + _RENEWAL_INTERVAL_S):
                self._renew_aside(now_s)
                return
        with self._lock:
            if self._fetched is fetched or self._refused:
                self._replace()

    def refused(self) -> bool:
        """Note that the server refused the credentials; return whether another attempt may have better ones.

        They are fetched on a thread of their own, once: where the server refuses those as well, it is final.
        """
        now_s = time.time()
        if self._fetched is None:
            return False
        if self._refused or now_s < self._old_news_until_s:
            return True
        if now_s < self._final_until_s:
            return False
        self._refused = True
        self._start(refused=True)
        return True

    def _renew_aside(self, now_s: float) -> None:
        if now_s >= self._next_renewal_s:
            self._next_renewal_s = now_s + _RENEWAL_INTERVAL_S
            self._start(refused=False)

    def _start(self, *, refused: bool) -> None:
        # Where no thread can be started, what there is is used until it is refused.
        with contextlib.suppress(RuntimeError):
            DaemonThread(self._replace_aside, args=(refused,), name="torchbucket-credentials").start()

    def _replace_aside(self, refused: bool) -> None:
        if not self._lock.acquire(blocking=refused):
            return  # Somebody is at it.
        try:
            if self._refused or not refused:
                self._replace()
        except Exception as error:  # noqa: BLE001  # tried again, and told to callers once nothing valid is left
            _log.warning("%s: the credentials could not be renewed yet: %s", self._uri, error)
            if refused:  # The requests themselves fail, and say so.
                self._final_until_s = time.time() + _RENEW_AGAIN_S
                self._refused = False
        finally:
            self._lock.release()

    def _replace(self) -> None:
        """Fetch, with the lock held."""
        before = self._fetched
        value, ends_s = self._fetch(self._refused)
        now_s = time.time()
        is_new = before is None or before.value != value
        self._fetched = _Fetched(value, now_s, ends_s)
        if is_new or self._refused:
            self._final_until_s = now_s + _RENEW_AGAIN_S
        self._old_news_until_s = now_s + _OLD_NEWS_S if is_new and before is not None else 0.0
        self._next_renewal_s = now_s + _RENEWAL_INTERVAL_S
        self._refused = False
