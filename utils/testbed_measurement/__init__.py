"""Measurements of the testbed: how exactly it shapes, and how much it carries."""
