"""The environment variables of the measured process."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from typing import Final

__all__ = ["TESTBED_REGION", "ask_testbed_directly", "measured_environment"]

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
    # Nor must a user's Application Default Credentials, or those of the machine. Source: google-auth, environment_vars.
    "CLOUDSDK_CONFIG": os.devnull,
    "NO_GCE_CHECK": "true",
}
_PROVIDERS: Final = ("AWS_", "GOOGLE_", "GCLOUD_", "GCP_", "GCE_", "CLOUDSDK_", "STORAGE_EMULATOR_", "RCLONE_")
# Where clients look for an endpoint, a proxy and certificates. Those to trust are the target's, as each client is told.
_ELSEWHERE: Final = frozenset({
    "api_endpoint_override", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "ssl_cert_file", "ssl_cert_dir", "requests_ca_bundle", "curl_ca_bundle",
})  # fmt: skip
# What torchrun, or a cluster, tells each process that it starts: a measured process is told its own.
_LAUNCHERS: Final = ("TORCHELASTIC_", "PET_", "GROUP_", "ROLE_")
_RANK: Final = frozenset({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})


def measured_environment(environment: Mapping[str, str], *, testbed: bool) -> dict[str, str]:
    """The environment of a measured process.

    Args:
        environment: that of the sweep's process.
        testbed: whether the target is the testbed. Then every variable by which the clients find a credential, a
            profile, an endpoint or certificates is replaced by dummies or left out, so that nothing of the user's takes
            part, and so are proxies: they do not reach the loopback address. For a real service they stay as they are.
            Either way a rank that this process itself may have is left out.
    """
    own = {name: value for name, value in environment.items() if name not in _RANK and not name.startswith(_LAUNCHERS)}
    if not testbed:
        return own
    kept = {
        name: value for name, value in own.items() if not name.startswith(_PROVIDERS) and name.lower() not in _ELSEWHERE
    }
    return {**kept, **_TESTBED}


def ask_testbed_directly(environment: MutableMapping[str, str], host: str) -> None:
    """Have no proxy of the user asked for the testbed by the sweep's own process, which makes and reads data sets."""
    for name in ("no_proxy", "NO_PROXY"):
        already = environment.get(name)
        environment[name] = host if not already else f"{already},{host}"
