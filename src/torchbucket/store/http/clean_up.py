"""The removal of what a write leaves on the server: uploads that were given up, and temporary objects."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence
from concurrent.futures import wait
from typing import Final

from torchbucket.store.http.dialect import Dialect
from torchbucket.store.transport.operation import Operation
from torchbucket.store.transport.transport import Transport

__all__ = ["clean_up", "remove_temporaries"]

_log = logging.getLogger("torchbucket.uploads")

# How long a removal of temporary objects waits, of which there may be thousands.
_REMOVAL_PATIENCE_S: Final = 60.0

# What the server has not answered in time. Until it has, others of the store do not wait: a program that gives up
# sixteen writers of a service that is down must not wait sixteen times.
_late: weakref.WeakKeyDictionary[Transport, Operation[None]] = weakref.WeakKeyDictionary()


def clean_up(
    transport: Transport, dialect: Dialect, removals: Sequence[Operation[None]], what: str, *, patience_s: float
) -> bool:
    """Have things removed, as far as that is possible: what failed before matters more than a failure here.

    Args:
        transport: runs the requests.
        dialect: sees to their credentials.
        removals: the requests.
        what: what each of them removes, for the warning of one that failed.
        patience_s: how long to wait for them. What takes longer goes on by itself.

    Returns:
        Whether all is removed, as far as is known now.
    """
    try:
        dialect.prepare()
        transport.submit(removals)
        late = _late.get(transport)
        wait([removal.future for removal in removals], timeout=patience_s if late is None or late.future.done() else 0)
    except Exception as error:  # noqa: BLE001  # see above
        _log.warning("%s: %s could not be removed: %s", ", ".join(removal.uri for removal in removals), what, error)
        return False
    done = True
    for removal in removals:
        why: BaseException | None = TimeoutError("the server has not answered yet; it is asked on")
        if removal.future.done():
            why = removal.future.exception()
        else:
            _late[transport] = removal
        if why is not None:
            _log.warning("%s: %s could not be removed: %s", removal.uri, what, why)
            done = False
    return done


def remove_temporaries(transport: Transport, dialect: Dialect, keys: Sequence[str]) -> None:
    """Remove objects that existed only while another one was made, as far as that is possible."""
    if keys:
        removals = [dialect.delete_object(key, condition=None) for key in keys]
        clean_up(transport, dialect, removals, "the temporary object", patience_s=_REMOVAL_PATIENCE_S)
