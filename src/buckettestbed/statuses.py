"""What the command's exit status says; 0 is a clean end."""

__all__ = ["DIRECTORY_IN_USE", "FOREIGN_DIRECTORY", "UNANNOUNCED", "USAGE"]

UNANNOUNCED = 1
"""Standard output did not take the line that says where it serves; it has ended again, told on standard error."""

USAGE = 2
"""A mistake in the arguments, told on standard error."""

DIRECTORY_IN_USE = 3
"""Another testbed serves the directory, told likewise."""

FOREIGN_DIRECTORY = 4
"""The directory is none of a testbed's, or of another format, told likewise."""
