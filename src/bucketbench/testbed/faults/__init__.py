"""Faults by rule: which requests they strike, and what happens to those."""
