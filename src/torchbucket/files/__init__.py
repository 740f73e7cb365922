"""File objects over a store: what a program reads that expects an open file."""

from __future__ import annotations

from torchbucket.files.reader import ObjectReader

__all__ = ["ObjectReader"]
