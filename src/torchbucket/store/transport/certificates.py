"""Which certificates a store trusts."""

from __future__ import annotations

import os

import certifi

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError

__all__ = ["trusted_certificates"]


def trusted_certificates(config: StoreConfig) -> str:
    """The file of trusted certificates: the setting's, else the environment's, else certifi's.

    Raises:
        ConfigError: the environment names a file that is not there.
    """
    if config.ca_bundle is not None:
        return config.ca_bundle
    for name in ("SSL_CERT_FILE", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        path = os.environ.get(name)
        if path:
            if not os.path.isfile(path):  # noqa: PTH113  # nothing else here needs a Path
                raise ConfigError(f"{name} names {path!r}, which is no file of certificates; correct or unset it")
            return path
    return certifi.where()
