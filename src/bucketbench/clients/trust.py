"""How clients without a setting of their own are told which certificates to trust: by the environment."""

from __future__ import annotations

import os

from bucketbench.clients.protocol import Target

__all__ = ["trust_by_environment"]


def trust_by_environment(target: Target, *variables: str) -> None:
    """Point the variables that a client's library reads at the target's certificates, for this process and its workers.

    To be called before the library is imported, since some read them then.

    Args:
        target: names the PEM file; nothing is done where it names none.
        variables: such as ``REQUESTS_CA_BUNDLE``.
    """
    if target.ca_bundle is not None:
        for variable in variables:
            os.environ[variable] = target.ca_bundle
