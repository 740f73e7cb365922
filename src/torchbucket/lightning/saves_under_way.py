"""The one save that goes on while the training does, and what is to be done once it is durable."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from torchbucket.lightning.location import located
from torchbucket.store.thread_pool import ThreadPool
from torchbucket.uri import ObjectURI

__all__ = ["SavesUnderWay"]

_log = logging.getLogger("torchbucket.lightning")


class SavesUnderWay:
    """One save at a time, and removals and copies that wait for it. Not for use by several threads."""

    def __init__(self) -> None:
        self._save: Future[Any] | None = None
        self._saving: ObjectURI | None = None
        self._is_there: Callable[[], bool] = bool
        self._next: list[Future[None]] = []  # what is done once that is durable, in this order
        self._queue: ThreadPool | None = None
        self._failed = False

    @property
    def is_durable(self) -> bool:
        """Whether all that was saved, copied and removed since the last failure is done."""
        save_is = not self._failed if self._save is None else self._is_there()
        return save_is and all(done.done() and done.exception() is None for done in self._next)

    def is_saving(self, path: str | os.PathLike[str]) -> bool:
        """Whether a checkpoint of that path is under way, so that nobody sees it yet."""
        return self._save is not None and not self._save.done() and self._saving == located(path)

    def begin(self, save: Future[Any], location: ObjectURI, is_there: Callable[[], bool]) -> None:
        """A save has begun; ``wait`` has returned before.

        Args:
            save: its end.
            location: where to.
            is_there: whether it has ended, and well.
        """
        self._save, self._saving, self._is_there, self._failed = save, location, is_there, False

    def wait(self) -> None:
        """Wait until all that was saved is durable and all that was to be removed is; raise what failed, once.

        Raises:
            StoreError: a save or a removal failed.
        """
        self.wait_for_end()
        save, self._save = self._save, None
        done, self._next = self._next, []
        try:
            if save is not None:
                save.result()
            for work in done:
                work.result()
        except BaseException:
            self._failed = True
            raise

    def wait_for_end(self) -> None:
        """Wait as ``wait`` does, and leave what failed to it."""
        if self._save is not None:
            wait([self._save])
        wait(self._next)

    def then(self, what: str, location: ObjectURI, work: Callable[[], None]) -> None:
        """Do some work when what is under way is durable, unless it fails; at once where nothing is.

        Args:
            what: what it is, for the message if it is not done: "removed".
            location: to what it is done.
            work: it.
        """
        save, saving, is_there = self._save, self._saving, self._is_there
        if save is None:
            work()
            return

        def once_durable() -> None:
            wait([save])
            if is_there():
                work()
            else:
                _log.warning("%s is not %s, since the save to %s before it failed", location, what, saving)

        if self._queue is None:
            self._queue = ThreadPool(1, "torchbucket-lightning")
        self._next.append(self._queue.submit(once_durable))

    def attempt(self, location: ObjectURI, work: Callable[[], None]) -> None:
        """Do some work now; should it fail, that is logged here, and raised by the next ``wait``.

        Args:
            location: to what it is done.
            work: it.
        """
        done: Future[None] = Future()
        try:
            work()
        except Exception as error:  # noqa: BLE001  # it is raised where all ranks hear of it
            _log.error("%s: %s", location, error)
            done.set_exception(error)
            self._next.append(done)

    def end(self) -> None:
        """Wait as ``wait`` does, and end the thread that removes."""
        try:
            self.wait()
        finally:
            queue, self._queue = self._queue, None
            if queue is not None:
                queue.shutdown()
