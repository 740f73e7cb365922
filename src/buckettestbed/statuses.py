"""What the command's exit status says; 0 is a clean end."""

__all__ = ["DIRECTORY_IN_USE", "FOREIGN_DIRECTORY", "USAGE"]

USAGE = 2
"""A mistake in the arguments, told on standard error."""

DIRECTORY_IN_USE = 3
"""Another testbed serves the directory, told likewise."""

FOREIGN_DIRECTORY = 4
"""The directory is none of a testbed's, or of another format, told likewise."""
