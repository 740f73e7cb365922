"""Whether clients take the options that they are given, asked before the first job of a sweep.

``python -m bucketbench.job.options`` reads components as JSON from its standard input, and prints for each of them what
is wrong, or null. It runs in the interpreter of the clients, and alone imports them: a sweep's process stays small.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from bucketbench.job.description import Component, component

__all__ = ["main", "no_such_option", "wrong_options"]

_LIMIT_S: Final = 300.0  # an import of torch takes two seconds, on a machine with other work many times that
_OWN: Final = "bucketbench.clients."


def wrong_options(
    clients: Sequence[Component], *, python: Path, environment: Mapping[str, str]
) -> list[str | None] | None:
    """What is wrong with the options of each client; None where that could not be found out, and its job will tell.

    Args:
        clients: of one interpreter.
        python: the interpreter.
        environment: all of its environment.
    """
    try:
        done = subprocess.run(
            [str(python), "-m", __name__],
            input=json.dumps([asdict(client) for client in clients]),
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=True,
        )
        problems: list[str | None] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    return problems


def no_such_option(name: str, known: Sequence[str]) -> str:
    """That there is no option of a name, and which there are."""
    close = difflib.get_close_matches(name, known, n=1)
    hint = f": did you mean {close[0]}?" if close else ""
    return f"there is no option {name}{hint} (the options are: {', '.join(known) or 'none'})"


def main() -> int:
    """Answer for each component on standard input."""
    components = [component(fields) for fields in json.load(sys.stdin)]
    sys.stdout.write(f"{json.dumps([_problem(one) for one in components])}\n")
    return 0


def _problem(client: Component) -> str | None:
    for directory in reversed(client.search_path):
        if directory not in sys.path:
            sys.path.insert(0, directory)
    module, _, name = client.target.replace(":", ".").rpartition(".")
    try:
        target = getattr(importlib.import_module(module), name)
        parameters, hints = inspect.signature(target).parameters, get_type_hints(target.__init__)
    except Exception:  # noqa: BLE001 - whatever an import raises is told by the client's job, with its log
        return None
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    known = [one.name for one in parameters.values() if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
    for option in client.options:
        if option not in known and not takes_any and not option.startswith("_"):  # _partial_ and its like are Hydra's
            return no_such_option(option, known)
    if not client.target.startswith(_OWN):
        return None
    misfits = (_misfit(option, value, hints.get(option)) for option, value in client.options.items())
    return next((found for found in misfits if found is not None), None) or _refusal(client)


def _misfit(option: str, value: Any, hint: Any) -> str | None:
    """What one of our own clients takes instead of a value; all their whole numbers count something, from 1."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    words = []
    for kind in kinds:
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        if choices:
            accepted, told = value in choices, f"one of {', '.join(map(str, choices))}"
        elif kind is int:
            accepted, told = isinstance(value, int) and not isinstance(value, bool) and value >= 1, "a number from 1"
        elif kind is bool:
            accepted, told = isinstance(value, bool), "true or false"
        elif kind is str:
            accepted, told = isinstance(value, str), "a text"
        elif kind is NoneType:
            accepted, told = value is None, "null"
        else:
            return None
        if accepted:
            return None
        words.append(told)
    return f"{option}={value} cannot be used: expected {' or '.join(words)}"


def _refusal(client: Component) -> str | None:
    """What one of our own clients says to its options when it is built, which starts nothing."""
    from bucketbench.components import build
    from bucketbench.errors import UsageError

    try:
        build(client)
    except (UsageError, TypeError, ValueError) as error:
        return " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - its job tells
        return None
    return None


if __name__ == "__main__":
    sys.exit(main())
