"""The temporary objects that this process has made and not yet removed, and their removal whatever ends it."""

from __future__ import annotations

import atexit
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.util import Finalize
from typing import ClassVar, Final

from torchbucket.datasets.temporaries.signals import EndingSignals
from torchbucket.errors import StoreError
from torchbucket.store.daemon_thread import DaemonThread
from torchbucket.store.protocol import Store
from torchbucket.store.temporary_names import temporary_key
from torchbucket.store.thread_pool import exit_has_begun

__all__ = ["LivingTemporaries", "NoMoreTemporariesError"]

# How long the end of a process is held up. Source: Kubernetes and torchrun send SIGKILL 30 s after SIGTERM.
_LIMIT_S: Final = 15.0

# Removals at once, and how often to look whether a request has ended. Source: ours; a removal takes some 20 ms.
_REMOVALS: Final = 8
_LOOK_S: Final = 0.01


class NoMoreTemporariesError(Exception):
    """The iteration is being closed, or the process is ending."""


class LivingTemporaries:
    """The temporary objects of one iterator, each known from before it is made until it is removed.

    ``close`` removes what is there. So does the end of the process: an exception, ``sys.exit``, the end of a
    DataLoader's worker, and SIGTERM or SIGINT where they would end it at once. SIGKILL and ``os._exit`` leave them to
    ``sweep_temporaries``.

    Safe for threads. A forked child has none of its parent's.

    Args:
        open_store: opens the store anew, for the removal after a signal: what the signal interrupted may hold locks of
            the other one.
        store: where the objects are.
        prefix: what their keys begin with.
    """

    def __init__(self, open_store: Callable[[], Store], store: Store, prefix: str) -> None:
        self._open_store = open_store
        self._store = store
        self._prefix = prefix
        # Only single operations of dictionaries, so that a signal's handler needs no lock.
        self._keys: dict[str, None] = {}
        self._making: dict[str, None] = {}
        self._closing = False
        _Process.add(self)

    @contextmanager
    def making(self) -> Iterator[str]:
        """A new key, under which the object is being made inside the block.

        Raises:
            NoMoreTemporariesError: nothing may be made any more.
        """
        # Random in front, so that names made in one second are not neighbours in the provider's index.
        key = temporary_key(f"{self._prefix}{secrets.token_hex(8)}")
        self._making[key] = None
        try:
            # After the key is known, so that who closes either sees it or is seen. The interpreter that exits waits for
            # pools and their work, which nobody would read any more.
            if self._closing or exit_has_begun():
                raise NoMoreTemporariesError
            self._keys[key] = None
            yield key
        finally:
            del self._making[key]

    def remove(self, key: str) -> None:
        """Remove an object; it stays known where that fails.

        Raises:
            StoreError: it is still there.
        """
        self._store.delete(key)
        self._keys.pop(key, None)

    @property
    def is_empty(self) -> bool:
        """Whether all that was made is removed."""
        return not self._keys

    def close(self) -> list[str]:
        """Wait for what is being made and remove all that is left; return the keys of what could not be removed."""
        if self._closing and self.is_empty:
            return []
        left = self._remove_all(self._store, time.monotonic() + 4 * _LIMIT_S)
        _Process.discard(self)
        return left

    def abandon(self, *, anew: bool, stop_s: float) -> list[str]:
        """Remove all that is left because the process ends; ``anew`` says not to touch the store that is open."""
        return self._remove_all(self._open_store() if anew else self._store, stop_s)

    def _remove_all(self, store: Store, stop_s: float) -> list[str]:
        self._closing = True
        while self._making and time.monotonic() < stop_s:
            time.sleep(_LOOK_S)
        keys = deque(self._keys)
        if len(keys) < 2 or not threading.main_thread().is_alive():
            # A process that ends starts no more threads.
            self._remove_each(store, keys)
            return list(self._keys)
        # Not by an executor: starting its work takes a lock of all executors, which a signal's handler may have
        # interrupted the main thread in.
        threads = [
            DaemonThread(self._remove_each, args=(store, keys), name="torchbucket-removal")
            for _ in range(min(_REMOVALS, len(keys)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, stop_s - time.monotonic()))
        return list(self._keys)

    def _remove_each(self, store: Store, keys: deque[str]) -> None:
        while keys:
            # Another thread may have taken the last one; what cannot be removed stays known.
            with suppress(IndexError, StoreError):
                key = keys.popleft()
                store.delete(key)
                self._keys.pop(key, None)


class _Process:
    """All temporaries of this process."""

    _living: ClassVar[dict[int, LivingTemporaries]] = {}
    _signals: EndingSignals | None = None
    _at_end: Finalize | None = None
    _at_exit = False
    _pid = 0

    @classmethod
    def add(cls, temporaries: LivingTemporaries) -> None:
        if cls._pid != os.getpid():
            # A forked child: what its parent made is its parent's, and so were the handlers.
            cls._living, cls._signals, cls._at_end, cls._pid = {}, None, None, os.getpid()
        cls._living[id(temporaries)] = temporaries
        if not cls._at_exit:
            # Registered after the stores' own end, so it runs before that.
            cls._at_exit = True
            atexit.register(cls.end, anew=False)
        if cls._at_end is None:
            # For multiprocessing's children, where `atexit` does not run.
            cls._at_end = Finalize(None, cls.end, kwargs={"anew": False}, exitpriority=1)
        if cls._signals is None:
            cls._signals = EndingSignals(cls.end)
        cls._signals.install()

    @classmethod
    def discard(cls, temporaries: LivingTemporaries) -> None:
        if cls._pid != os.getpid():
            return
        if temporaries.is_empty:
            cls._living.pop(id(temporaries), None)
        if not cls._living and cls._signals is not None:
            cls._signals.restore()

    @classmethod
    def end(cls, *, anew: bool) -> None:
        """Remove all that is left, within the limit."""
        if cls._pid != os.getpid():
            return
        stop_s = time.monotonic() + _LIMIT_S
        for temporaries in list(cls._living.values()):
            temporaries.abandon(anew=anew, stop_s=stop_s)
