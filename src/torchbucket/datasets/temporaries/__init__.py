"""Temporary objects: their removal whatever ends the process, and the sweep of what a killed one has left."""
