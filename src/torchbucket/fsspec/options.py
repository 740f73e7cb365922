"""Storage options, as users of s3fs and gcsfs write them, as settings of a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError

__all__ = ["config_of"]

# Hints about buffers, caches and event loops that other file systems need, and a project, which only the creation of
# buckets asks for. They change how something is done, never what.
_HINTS: Final = frozenset(
    {
        "access",
        "asynchronous",
        "batch_size",
        "block_size",
        "cache_regions",
        "cache_timeout",
        "consistency",
        "default_block_size",
        "default_cache_options",
        "default_cache_type",
        "default_fill_cache",
        "listings_expiry_time",
        "loop",
        "max_concurrency",
        "max_paths",
        "project",
        "use_listings_cache",
    }
)

_SECRETS: Final = frozenset({"key", "secret", "username", "password", "session", "session_kwargs"})

# gcsfs' names of what Application Default Credentials find.
_DEFAULT_TOKENS: Final = ("google_default", "cloud", "cache")

_S3_CLIENT: Final = {"endpoint_url": "endpoint", "region_name": "region"}
_S3_WRITES: Final = {
    "ServerSideEncryption": "sse",
    "SSEKMSKeyId": "sse_kms_key_id",
}


def config_of(protocol: str, config: StoreConfig, options: Mapping[str, Any]) -> StoreConfig:
    """The settings, changed by what storage options say.

    Understood are ``anon``, ``endpoint_url``, ``requester_pays``; of s3fs ``profile``, ``client_kwargs`` (endpoint_url,
    region_name, verify), ``config_kwargs`` (the addressing style), ``s3_additional_kwargs`` (encryption), ``use_ssl``;
    of gcsfs ``token`` where it names the default credentials or ``anon``. Hints about caches and buffers mean nothing.

    Args:
        protocol: ``s3``, ``gs`` or ``memory``.
        config: what they change.
        options: the options by name; None means that one was not given.

    Raises:
        ConfigError: an option is unknown, or is a secret: credentials come from where the store looks for them. The
            message never quotes a value.
    """
    given = {name: value for name, value in options.items() if value is not None and name not in _HINTS}
    fields: dict[str, Any] = {}
    if given.pop("anon", False):
        fields["anonymous"] = True
    if "endpoint_url" in given:
        fields["endpoint"] = given.pop("endpoint_url")
    if protocol == "s3":
        _take_s3(given, fields)
    elif protocol == "gs":
        _take_gs(given, fields)
    if secrets := sorted(_SECRETS.intersection(given) | ({"token"} & given.keys())):
        raise ConfigError(
            f"storage option {secrets[0]!r}: credentials are no option, since options are pickled and printed. Set "
            "them where the store looks: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a profile for S3, Application "
            "Default Credentials (GOOGLE_APPLICATION_CREDENTIALS) for Cloud Storage"
        )
    if given:
        raise ConfigError(
            f"storage option {sorted(given)[0]!r} means nothing to torchbucket's file system for {protocol}://; use "
            "config=torchbucket.StoreConfig(…), and see docs/fsspec.md for the options that it knows"
        )
    return replace(config, **fields) if fields else config


def _take_s3(given: dict[str, Any], fields: dict[str, Any]) -> None:
    if "profile" in given:
        fields["profile"] = given.pop("profile")
    if given.pop("requester_pays", False):
        fields["requester_pays"] = True
    if given.get("version_aware") is False:
        del given["version_aware"]
    client = _taken(given, "client_kwargs", _S3_CLIENT, fields)
    if isinstance(client.get("verify"), str):
        fields["ca_bundle"] = client.pop("verify")
    elif client.get("verify") is True:
        del client["verify"]
    _refuse_rest("client_kwargs", client)
    if given.get("use_ssl") is True or (given.get("use_ssl") is False and "endpoint" in fields):
        del given["use_ssl"]  # An endpoint says so by its scheme.
    settings = dict(given.pop("config_kwargs", {}))
    s3 = dict(settings.pop("s3", {}))
    style = s3.pop("addressing_style", "auto")
    if style in ("path", "virtual"):
        fields["path_style"] = style == "path"
    _refuse_rest("config_kwargs", {**settings, **s3})
    _refuse_rest("s3_additional_kwargs", _taken(given, "s3_additional_kwargs", _S3_WRITES, fields))


def _take_gs(given: dict[str, Any], fields: dict[str, Any]) -> None:
    token = given.get("token")
    if token == "anon":  # noqa: S105  # gcsfs' word for none
        fields["anonymous"] = True
    if token == "anon" or (isinstance(token, str) and token in _DEFAULT_TOKENS):  # noqa: S105
        given.pop("token", None)
    payer = given.pop("requester_pays", None)
    if isinstance(payer, str):
        fields["user_project"] = payer
    elif payer:
        raise ConfigError("storage option 'requester_pays' for gs:// is the id of the project that pays")


def _taken(given: dict[str, Any], option: str, names: Mapping[str, str], fields: dict[str, Any]) -> dict[str, Any]:
    """Move what a nested option says into fields; return what is left."""
    rest = {name: value for name, value in dict(given.pop(option, {})).items() if value is not None}
    for name, field in names.items():
        if name in rest:
            fields[field] = rest.pop(name)
    return rest


def _refuse_rest(option: str, rest: Mapping[str, Any]) -> None:
    if rest:
        raise ConfigError(
            f"storage option {option}[{sorted(rest)[0]!r}] means nothing to torchbucket's file system; use "
            "config=torchbucket.StoreConfig(…), and see docs/fsspec.md for the options that it knows"
        )
