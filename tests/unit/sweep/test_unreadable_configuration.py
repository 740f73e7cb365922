"""A configuration file that is no text is refused by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bucketbench.cli import main


def test_a_configuration_that_is_not_utf8_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    preset = tmp_path / "network" / "mine.yaml"
    preset.parent.mkdir()
    preset.write_bytes(b"name: \xff\n")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "listing", "--config-dir", str(tmp_path), "network=mine", "--cfg", "job"]) == 2
    assert f"{preset} is not UTF-8" in capsys.readouterr().err
