"""Epochs: in which order samples come, who gets which, and how far everyone got."""
