"""docs/figures.md defines every figure that there is, in its unit, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from bucketbench.scenarios.dataset.figures import FIGURES

PAGE = Path(__file__).parents[3] / "docs" / "figures.md"


def test_the_page_defines_every_figure_in_its_unit() -> None:
    defined = {}
    for names, unit in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE):
        defined |= dict.fromkeys(re.findall(r"`(\w+)`", names), unit)
    assert defined == FIGURES.units
