"""What the harness raises: one root, and one class for what a user can put right on the command line."""

from __future__ import annotations

__all__ = ["BucketbenchError", "ConfigurationError", "PreflightError", "ResultsError", "UsageError"]


class BucketbenchError(Exception):
    """Root of the harness's own errors."""


class UsageError(BucketbenchError):
    """What was asked for cannot be done as it stands; the message says what to change.

    At the command line it is one message on stderr and exit status 2, without a traceback.
    """


class ConfigurationError(UsageError):
    """A configuration has a wrong, unknown or unset key; the message names the key, the value and what is accepted."""


class PreflightError(UsageError):
    """A sweep was refused before anything started: a package is missing, the data cannot fit, a bucket is not there."""


class ResultsError(BucketbenchError):
    """A result file cannot be written or read; the message names it."""
