"""The options that every subcommand with a store takes, and the settings they make."""

from __future__ import annotations

import argparse
import re
from typing import Final

from torchbucket.config import StoreConfig

__all__ = ["add_store_options", "as_options", "store_config"]

_SETTING: Final = re.compile(
    r"StoreConfig\((?:anonymous=True|(endpoint|region|profile)=['\"]?([^)'\"]*)['\"]?)\)"
    r"|StoreConfig\.(endpoint|region|profile|anonymous)\b"
)


def add_store_options(parser: argparse.ArgumentParser) -> None:
    """Let a subcommand be told how to reach a store. Credentials are no options: they come from the environment."""
    group = parser.add_argument_group("store")
    group.add_argument("--endpoint", metavar="URL", help="base URL of a service, such as http://127.0.0.1:9000")
    group.add_argument("--region", help="the bucket's region (S3)")
    group.add_argument("--profile", help="the profile in the AWS configuration files (S3)")
    group.add_argument("--anonymous", action="store_true", help="send no credentials, for public buckets")


def store_config(arguments: argparse.Namespace) -> StoreConfig:
    """The settings that the options say.

    Raises:
        ConfigError: an option has a wrong value.
    """
    return StoreConfig(
        endpoint=arguments.endpoint,
        region=arguments.region,
        profile=arguments.profile,
        anonymous=arguments.anonymous,
    )


def as_options(text: str) -> str:
    """An error's text with the option of the command line for each setting that it names and that has one."""

    def option(found: re.Match[str]) -> str:
        if found[3]:
            return f"--{found[3]}"
        return f"--{found[1]} {found[2]}" if found[1] else "--anonymous"

    return _SETTING.sub(option, text)
