"""The options of a data set's constructors: declared once, and shown and checked as if each constructor listed them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

__all__ = ["settings_of", "shows_options"]

_CONSTRUCTORS = ("from_prefix", "from_objects", "from_manifest")

_PLACE = "    options: see below."  # in a constructor's docstring, for what describes them

S = TypeVar("S")
C = TypeVar("C", bound=type)


def settings_of(settings: type[S], options: Mapping[str, Any], owner: type, constructor: str) -> S:
    """Make settings of a constructor's keyword arguments.

    Args:
        settings: a dataclass that describes and checks them.
        options: the arguments by name.
        owner: the class that was given them, as ``shows_options`` left it; for the message.
        constructor: the name of the class method.

    Raises:
        TypeError: there is no such argument; the message names those that there are.
        ConfigError: one has a wrong value.
    """
    known = {field.name for field in fields(settings)}  # type: ignore[arg-type]  # a dataclass
    unknown = [repr(name) for name in options if name not in known]
    if unknown:
        accepted = ", ".join(inspect.signature(getattr(owner, constructor)).parameters)
        raise TypeError(
            f"{owner.__name__}.{constructor} has no argument {', '.join(unknown)}; it takes {accepted}. Region, "
            "endpoint, retries and the like are given as config=StoreConfig(…)"
        )
    return settings(**options)


def shows_options(settings: type) -> Callable[[C], C]:
    """Show the fields of ``settings`` in the signature and the text that ``help`` has of a class's constructors.

    A constructor whose own text has no ``options: see below.`` gets what follows the first paragraph of the text of the
    method that it calls, of the same name with an underscore.
    """
    options = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=field.type,
        )
        for field in fields(settings)
    ]
    texts = [inspect.getdoc(kind) or "" for kind in reversed(settings.__mro__) if is_dataclass(kind)]
    described = "\n".join(text.partition("Args:\n")[2].partition("\n\n")[0] for text in texts)

    def decorated(owner: C) -> C:
        for name in _CONSTRUCTORS:
            if name not in vars(owner):
                continue
            constructor = vars(owner)[name].__func__
            signature = inspect.signature(constructor)
            own = [it for it in signature.parameters.values() if it.kind is not inspect.Parameter.VAR_KEYWORD]
            constructor.__signature__ = signature.replace(parameters=[*own, *options])
            text = inspect.getdoc(constructor) or ""
            if _PLACE not in text:
                text += "\n\n" + (inspect.getdoc(getattr(owner, f"_{name}")) or "").partition("\n\n")[2]
            before, _, after = text.partition(_PLACE)
            constructor.__doc__ = f"{before}{described}{after}"
        return owner

    return decorated
