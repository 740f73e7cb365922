"""Stores around other stores: they count, limit or slow down what goes through them, and forward everything."""

from __future__ import annotations

from torchbucket.store.wrappers.forwarding import ForwardingStore
from torchbucket.store.wrappers.limited import LimitedStore, OperationLimit
from torchbucket.store.wrappers.metered import MeteredStore, OperationUsage, StoreUsage
from torchbucket.store.wrappers.throttled import RateLimit, ThrottledStore

__all__ = [
    "ForwardingStore",
    "LimitedStore",
    "MeteredStore",
    "OperationLimit",
    "OperationUsage",
    "RateLimit",
    "StoreUsage",
    "ThrottledStore",
]
