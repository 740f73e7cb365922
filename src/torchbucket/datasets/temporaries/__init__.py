"""Temporary objects: their names, and their removal whatever ends the process."""
