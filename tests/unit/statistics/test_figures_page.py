"""docs/figures.md defines every figure that there is, in its unit, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from bucketbench.checkpointing.figures import FIGURES as CHECKPOINTS
from bucketbench.scenarios.dataset.figures import FIGURES as DATASET
from bucketbench.scenarios.listing.figures import FIGURES as LISTING
from bucketbench.statistics.usage import SERVER_FIGURES, USAGE_FIGURES

PAGE = (Path(__file__).parents[3] / "docs" / "figures.md").read_text(encoding="utf-8")


def defined(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for names, unit in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", text, flags=re.MULTILINE):
        found |= dict.fromkeys(re.findall(r"`(\w+)`", names), unit)
    return found


def test_the_page_defines_every_figure_in_its_unit() -> None:
    dataset, rest = PAGE.split("\n## The listing scenario\n")
    listing, rest = rest.split("\n## Checkpoints\n")
    checkpoints, _ = rest.split("\n## Repeats")
    assert defined(dataset) == DATASET.units
    # What all have is defined once, above, and only named below.
    common = USAGE_FIGURES | SERVER_FIGURES
    shared = {name for name in common if not name.startswith(("gpu_", "network_"))}
    for section, figures in ((listing, LISTING), (checkpoints, CHECKPOINTS)):
        assert defined(section) | {name: kind.unit for name, kind in common.items()} == figures.units
        assert shared <= set(re.findall(r"`(\w+)`", section))
