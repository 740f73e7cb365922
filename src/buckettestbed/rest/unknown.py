"""The name that every dialect gives to what it does not serve."""

__all__ = ["UNKNOWN"]

UNKNOWN = "unknown"
"""Name of an operation that a dialect does not serve."""
