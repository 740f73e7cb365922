"""The page about stores: its examples run, and its table has every setting."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from torchbucket.config import StoreConfig
from torchbucket.errors import ConfigError
from torchbucket.store import open_store

PAGE = Path(__file__).parents[3] / "docs" / "stores.md"


def test_the_examples_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {})


def rows() -> list[list[str]]:
    table = PAGE.read_text().split("| setting |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]]


def test_every_setting_is_in_the_table() -> None:
    named = [name for row in rows() for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(named) == sorted(field.name for field in fields(StoreConfig))


@pytest.mark.parametrize(("column", "scheme"), [(1, "s3"), (2, "gs")])
def test_what_the_table_says_is_refused_is_refused(column: int, scheme: str) -> None:
    values: dict[str, object] = {
        "region": "eu-west-1",
        "path_style": True,
        "profile": "p",
        "requester_pays": True,
        "user_project": "payer",
        "sse": "AES256",
        "kms_key_name": "projects/p/locations/l/keyRings/r/cryptoKeys/k",
        "upload_checksum": "crc32",
    }
    for row in rows():
        for name in re.findall(r"`(\w+)`", row[0]):
            if name not in values:
                continue
            config = StoreConfig(**{name: values[name]})  # type: ignore[arg-type]  # by name
            if row[column].startswith("refused"):
                with pytest.raises(ConfigError, match=name):
                    open_store(f"{scheme}://bucket", config)
            else:
                open_store(f"{scheme}://bucket", config)
