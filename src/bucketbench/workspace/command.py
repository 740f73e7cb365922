"""``bucketbench init``: writes the configuration and the run scripts into a folder, where everything then runs."""

from __future__ import annotations

import argparse
import shlex
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from bucketbench.configuration.directory import PACKAGED
from bucketbench.errors import UsageError
from bucketbench.workspace.sources import files_below, files_beside_conf

__all__ = ["main"]

_INSTALLED: Final = "@installed@"


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Args:
        argv: the arguments after ``bucketbench init``.

    Returns:
        0, also where every file was there already.

    Raises:
        UsageError: the folder is no directory, or is not empty and nobody said that it may be. Nothing was written.
        OSError: a file could not be written.
    """
    arguments = _parser().parse_args(argv)
    folder: Path = arguments.folder
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"init {folder}: this is no directory; name one that is empty or not there yet")
    if not arguments.add_missing and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(
            f"init {folder}: the directory is not empty; name another, or have the files added that it lacks by "
            "--add-missing, which leaves those that are there as they are"
        )
    written: list[Path] = []
    kept: list[Path] = []
    for name, content in _files():
        (written if _write(folder / name, content) else kept).append(name)
    for name in written:
        if name.suffix == ".sh":
            (folder / name).chmod(0o755)
    _tell(folder, written, kept)
    return 0


def _files() -> Iterator[tuple[Path, bytes]]:
    """Every file of a folder, by its path in it."""
    sources = {Path("conf") / name: source for name, source in files_below(PACKAGED).items()} | files_beside_conf()
    for name, source in sorted(sources.items()):
        yield name, _filled(name, source.read_bytes())


def _filled(name: Path, content: bytes) -> bytes:
    """The content of a file as it is in a folder of this installation."""
    if name.name == "environment.sh":
        return content.replace(_INSTALLED.encode(), shlex.quote(sysconfig.get_path("scripts")).encode())
    if name.name.startswith("constraints-"):
        # The environment of a client is to have the version that measures the others.
        return content + f"torchbucket=={metadata.version('torchbucket')}\n".encode()
    return content


def _write(path: Path, content: bytes) -> bool:
    """Make a file; False where there is one, which is left as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


def _tell(folder: Path, written: Sequence[Path], kept: Sequence[Path]) -> None:
    untouched = f"; {len(kept)} that were there are as they were" if kept else ""
    sys.stdout.write(f"{folder}: {len(written)} files in conf/ and utils/{untouched}\n")
    if find_spec("hydra") is None:
        sys.stdout.write("to run benchmarks: pip install 'torchbucket[bench,peers,report]'\n")
    script = "./utils/run_dataset_benchmarks.sh client=boto3,torchbucket-map"
    sys.stdout.write(f"next: cd {shlex.quote(str(folder))} && {script}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bucketbench init",
        description="Write conf/, the configuration of every scenario, and utils/, the scripts that run them, into a "
        "folder. A sweep that is started there takes its configuration from there.",
    )
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="an empty directory, or one that is not there yet and is then made"
    )
    parser.add_argument(
        "--add-missing",
        action="store_true",
        help="also into a directory that has files: add those that it lacks, and change none",
    )
    return parser
