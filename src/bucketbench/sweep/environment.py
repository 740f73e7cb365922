"""The environment variables of the measured process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

__all__ = ["TESTBED_REGION", "measured_environment"]

TESTBED_REGION: Final = "us-east-1"
"""The region that clients are told when they talk to the testbed; it serves any."""

_TESTBED: Final = {
    # The testbed checks no signature. Signing all the same keeps the clients' work what it is on a real service.
    "AWS_ACCESS_KEY_ID": "testbed",
    "AWS_SECRET_ACCESS_KEY": "testbed",
    "AWS_REGION": TESTBED_REGION,
    "AWS_DEFAULT_REGION": TESTBED_REGION,
    # A user's profile must neither reach the testbed nor break a client that reads it.
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
_PROXIES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})


def measured_environment(environment: Mapping[str, str], *, testbed: bool) -> dict[str, str]:
    """The environment of a measured process.

    Args:
        environment: that of the sweep's process.
        testbed: whether the target is the testbed. Then every ``AWS_*`` variable is replaced by dummies, so that no
            credential, profile or endpoint of the user's takes part, and proxies are left out: they do not reach the
            loopback address. For a real service the environment stays as it is.
    """
    if not testbed:
        return dict(environment)
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith("AWS_") and name.lower() not in _PROXIES
    }
    return {**kept, **_TESTBED}
