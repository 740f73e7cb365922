"""Checkpoints cross to Hugging Face's transformers and back."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from torchbucket.safetensors import load_file, save_sharded


@pytest.mark.nightly
def test_transformers_loads_what_was_saved_and_the_other_way_round(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = transformers.BertModel(transformers.BertConfig(vocab_size=100, **sizes))
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    model.config.save_pretrained(ours)
    save_sharded(model.state_dict(), ours, max_shard_bytes=20_000)
    loaded = transformers.BertModel.from_pretrained(ours).state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in model.state_dict().items())
    model.save_pretrained(theirs, max_shard_size="30KB")
    loaded = load_file(theirs)
    assert len(list(theirs.glob("*.safetensors"))) > 1
    assert loaded.keys() == model.state_dict().keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in model.state_dict().items())
