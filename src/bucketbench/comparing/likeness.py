"""When two results measure the same thing on the same class of machine, as far as a user does not say otherwise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["canonical", "host_class", "is_allowed", "varying"]

_HOST: Final = ("system", "machine", "cpu_model", "cpu_cores")


def host_class(host: Mapping[str, Any]) -> dict[str, Any]:
    """What of a machine makes it of another class, its memory in GiB; the cloud's kind of it where that is known.

    Args:
        host: as results have it.
    """
    memory, kind = host.get("memory_mib"), host.get("instance_type")
    return {
        **{name: host.get(name) for name in _HOST},
        "memory_gib": None if memory is None else round(memory / 1024),
        **({} if kind is None else {"instance_type": kind}),
    }


def is_allowed(name: str, allowed: Sequence[str]) -> bool:
    """Whether a parameter may differ: it, or its first parts, are named."""
    return any(name == one or name.startswith(f"{one}.") for one in allowed)


def varying(all_parameters: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of parameters that do not have the same value everywhere, in their order."""
    names = dict.fromkeys(name for parameters in all_parameters for name in parameters)
    return [name for name in names if len({canonical(one.get(name)) for one in all_parameters}) > 1]


def canonical(value: Any) -> str:
    """A text that is the same for equal values."""
    return json.dumps(value, sort_keys=True, default=str)
