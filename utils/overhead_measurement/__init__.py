"""The loops of a scenario as the harness measures them, and the same loops without it."""
