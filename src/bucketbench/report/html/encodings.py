"""What all charts of a page have in common: how a client is told, and what a mark says.

A client is told by its row, never by its colour alone; colour and shape add who won and who only shows what is
possible. Every mark begins its text for screen readers with the client's label, by which the page's script finds it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

__all__ = ["SEPARATOR", "Tone", "says", "tone", "tone_shape"]

SEPARATOR: Final = " · "
"""What follows the client's label in the text of a mark."""


class Tone(StrEnum):
    """What a client is in its contest."""

    WON = "won"
    CONTESTANT = "contestant"
    REFERENCE = "reference"


def tone() -> dict[str, Any]:
    """The colour of a mark, by the field ``tone``."""
    return {
        "field": "tone",
        "type": "nominal",
        "scale": {"domain": list(Tone), "range": [f"var(--{tone})" for tone in Tone]},
        "legend": None,
    }


def tone_shape() -> dict[str, Any]:
    """Its shape, likewise."""
    return {
        "field": "tone",
        "type": "nominal",
        "scale": {"domain": list(Tone), "range": ["circle", "circle", "diamond"]},
        "legend": None,
    }


def says() -> dict[str, Any]:
    """What it says, by the field ``says``."""
    return {"description": {"field": "says", "type": "nominal"}}
