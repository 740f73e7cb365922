"""Where the files lie that ``bucketbench init`` writes: in the package, or some in the repository around it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

__all__ = ["files_below", "files_beside_conf"]

_PACKAGED: Final = Path(__file__).parent / "files"
_REPOSITORY: Final = Path(__file__).resolve().parents[3]


def files_below(root: Path) -> dict[Path, Path]:
    """Every file below a directory, by its path in it; not what Python compiled."""
    found = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(root): path for path in found}


def files_beside_conf() -> dict[Path, Path]:
    """The files to write beside ``conf/``, by their path in the folder.

    An installed wheel has them all. Where it is run from a checkout, the repository's own are taken, which
    ``pyproject.toml`` has the wheel include.
    """
    packaged = files_below(_PACKAGED)
    if Path("utils/python.sh") in packaged:
        return packaged
    project = tomllib.loads((_REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    included: dict[str, str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    place = _PACKAGED.relative_to(_PACKAGED.parents[2])  # as in the wheel
    return {Path(name).relative_to(place): _REPOSITORY / source for source, name in included.items()} | packaged
