"""Runs the example in a file, whichever library it is of; prints what it left in `samples` and `names`."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path


def told(sample: object) -> object:
    if isinstance(sample, tuple | list):
        return [told(part) for part in sample]
    return {"bytes": sample.hex()} if isinstance(sample, bytes) else sample


def main() -> None:
    # A module of its own, as a user's script is: worker processes find its functions by it.
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    answers, sys.stdout = sys.stdout, sys.stderr
    exec(compile(Path(sys.argv[1]).read_text(encoding="utf-8"), "example", "exec"), module.__dict__)
    found = {name: [told(value) for value in getattr(module, name, [])] for name in ("samples", "names")}
    print(json.dumps(found), file=answers)


main()
