"""The removal of objects that existed only while another one was made."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import wait
from typing import Final

from torchbucket.store.http.dialect import Dialect
from torchbucket.store.transport.transport import Transport

__all__ = ["remove_temporaries"]

_log = logging.getLogger("torchbucket.temporaries")

# How long a removal waits; a request that takes longer goes on by itself.
_REMOVAL_TIMEOUT_S: Final = 60.0


def remove_temporaries(transport: Transport, dialect: Dialect, keys: Sequence[str]) -> None:
    """Remove temporary objects, as far as that is possible: what failed before matters more than a failure here."""
    if not keys:
        return
    removals = [dialect.delete_object(key, condition=None) for key in keys]
    transport.submit(removals)
    wait([removal.future for removal in removals], timeout=_REMOVAL_TIMEOUT_S)
    for removal in removals:
        if not removal.future.done():
            _log.warning("%s is a temporary object that is not removed yet", removal.uri)
        elif (error := removal.future.exception()) is not None:
            _log.warning("%s is a temporary object that could not be removed: %s", removal.uri, error)
