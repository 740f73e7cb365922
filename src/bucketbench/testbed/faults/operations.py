"""Which operations the rules of faults speak of, by what they do."""

__all__ = ["LISTINGS", "OPERATIONS", "READS", "WRITE_METHODS"]

LISTINGS = frozenset({"list_objects", "list_objects_v1", "list_objects_v2"})
"""Listings of objects, which come page by page."""

READS = frozenset({"get_object", "get_object_range"})
"""Reads of an object's bytes."""

WRITE_METHODS = frozenset({"PUT", "POST", "PATCH", "DELETE"})
"""Methods that change something, or may carry a body."""

OPERATIONS = LISTINGS | READS
"""Every name that a dialect gives an operation."""
