"""The page about Lightning: its examples run."""

from __future__ import annotations

from lightning_page import SHARDED, blocks

from torchbucket.fsspec import unregister


def test_the_examples_run(tmp_path):
    here = [block for block in blocks() if SHARDED not in block]
    assert len(here) == 4
    text = "\n".join(here).replace("/tmp/torchbucket-run-2", f"{tmp_path}/run-2")
    names: dict[str, object] = {"__name__": "lightning_page"}
    try:
        exec(compile(text, "docs/lightning.md", "exec"), names)
    finally:
        unregister()
    assert names["trainer"].ckpt_path.endswith("last.ckpt")
