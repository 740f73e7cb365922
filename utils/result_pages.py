"""Pages of docs/results/: text, the command that made it, the machine, and tables."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bucketbench.provenance.host import describe_host

__all__ = ["write_page"]


def write_page(path: Path, *, title: str, text: str, command: str, sections: Iterable[str]) -> None:
    """Write a page anew."""
    parts = [f"# {title}", text, f"```console\n$ {command}\n```", _machine(), *sections]
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")


def _machine() -> str:
    host = describe_host()
    return (
        f"Made on {datetime.now(UTC):%Y-%m-%d} on {host['cpu_cores']} processors ({host['cpu_model']}), Linux"
        f" {platform.release().split('-')[0]}, Python {platform.python_version()}, torch {version('torch')}; load"
        f" average at the end {os.getloadavg()[0]:.1f}. Client and server share the processors."
    )
