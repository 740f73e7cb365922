"""Figures as Markdown."""

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path


def thousands(number: float) -> str:
    """Returns a number without decimals, its thousands apart."""
    return f"{number:,.0f}"


@dataclass(kw_only=True)
class Table:
    """A table with its heading and what there is to say about it; numbers stand right."""

    title: str
    text: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *values: str | int) -> None:
        """Adds a row."""
        assert len(values) == len(self.columns), (values, self.columns)
        self.rows.append(tuple(str(value) for value in values))

    def markdown(self) -> str:
        """Returns the section."""
        lines = [f"## {self.title}", self.text, "", _row(self.columns), _row("---" for _ in self.columns)]
        return "\n".join([*lines, *(_row(row) for row in self.rows), ""])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write_page(path: Path, *, title: str, text: str, command: str, tables: Iterable[Table]) -> None:
    """Writes a page anew: heading, text, the command that made it, the machine, the tables."""
    sections = [f"# {title}", "", text, "", f"```console\n$ {command}\n```", "", _machine(), ""]
    sections += [table.markdown() for table in tables]
    path.write_text("\n".join(sections), encoding="utf-8")


def _machine() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("uvicorn", "uvloop", "httptools", "obstore"))
    load = os.getloadavg()
    return (
        f"Made on {datetime.now(UTC):%Y-%m-%d} on {os.cpu_count()} processors ({_processor()}), Linux"
        f" {platform.release().split('-')[0]}, Python {platform.python_version()}, {packages}; load average at the end"
        f" {load[0]:.1f}. Client and server share the processors. One run."
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
