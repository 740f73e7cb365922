"""The compose strategy: many small objects joined by the server and read as one."""

from __future__ import annotations

from torchbucket.datasets.compose.options import Compose

__all__ = ["Compose"]
