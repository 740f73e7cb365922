"""What a failed command advises is what its user can type."""

from __future__ import annotations

import pytest

from torchbucket.cli_options import as_options


@pytest.mark.parametrize(
    ("advice", "told"),
    [
        ("use StoreConfig(anonymous=True)", "use --anonymous"),
        ("it is 'a', not 'b'; set StoreConfig(region='eu-west-1')", "it is 'a', not 'b'; set --region eu-west-1"),
        ("StoreConfig.endpoint must be http://HOST", "--endpoint must be http://HOST"),
        ("StoreConfig(verify_checksums=False) reads it", "StoreConfig(verify_checksums=False) reads it"),
    ],
)
def test_settings_are_told_as_options(advice: str, told: str) -> None:
    assert as_options(advice) == told
