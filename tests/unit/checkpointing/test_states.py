"""The states that are saved: their shapes are the published ones, their weights those of the seed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bucketbench.checkpointing.shapes import PUBLISHED_MODELS, equal_shapes, transformer_shapes
from bucketbench.checkpointing.state import StateSpec, make_state, mark_state, state_bytes, time_copy


def spec(model: str, **fields: Any) -> StateSpec:
    return StateSpec(**({"layers": None, "tensors": None, "size_bytes": None, "seed": 0} | fields | {"model": model}))


@pytest.mark.nightly
def test_the_transformer_is_lightnings_demo() -> None:
    demos = pytest.importorskip("lightning.pytorch.demos")
    with torch.device("meta"):
        model = demos.Transformer(vocab_size=33_278, nlayers=2)
    published = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    ours = transformer_shapes(2)
    assert {name: ours[name] for name in ours if name in published} == {n: published[n] for n in ours if n in published}
    assert sorted(ours) == sorted(name for name in published if "pos_encoder" not in name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", PUBLISHED_MODELS)
def test_published_models_have_the_tensors_that_transformers_builds(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    t5 = {"d_kv": 64, "num_layers": 24, "feed_forward_proj": "gated-gelu"}
    with torch.device("meta"):
        model = {
            "vit-base": lambda: transformers.ViTModel(transformers.ViTConfig()),
            "clip-vit": lambda: transformers.CLIPModel(_clip_large(transformers)),
            "whisper": lambda: transformers.WhisperForConditionalGeneration(_whisper_large(transformers)),
            "T0_3B": lambda: transformers.T5ForConditionalGeneration(
                transformers.T5Config(d_model=2048, d_ff=5120, num_heads=32, **t5)
            ),
            "T0pp": lambda: transformers.T5ForConditionalGeneration(
                transformers.T5Config(d_model=4096, d_ff=10_240, num_heads=64, **t5)
            ),
            **{
                llama: lambda sizes=sizes: transformers.LlamaForCausalLM(_llama(transformers, *sizes))
                for llama, sizes in LLAMAS.items()
            },
        }[name]()
    shapes = PUBLISHED_MODELS[name]()
    resolved = [shapes[shape] if isinstance(shape, str) else shape for shape in shapes.values()]
    # Names of modules differ between versions of transformers; shapes do not.
    assert sorted(resolved) == sorted(tuple(tensor.shape) for tensor in model.state_dict().values())


LLAMAS = {
    "llama-1b": (2048, 5632, 22, 32, 4),
    "llama-7b": (4096, 11_008, 32, 32, 32),
    "llama-13b": (5120, 13_824, 40, 40, 40),
    "llama-34b": (8192, 22_016, 48, 64, 8),
    "llama-70b": (8192, 28_672, 80, 64, 8),
}
"""Width, inner width, layers, heads and key-value heads of the published configurations."""


def _llama(transformers: Any, width: int, inner: int, layers: int, heads: int, key_heads: int) -> Any:
    return transformers.LlamaConfig(
        vocab_size=32_000, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=key_heads,
    )  # fmt: skip


def test_llamas_have_as_many_parameters_as_published() -> None:
    # Source: the parameter counts that the Hugging Face Hub shows of the models' safetensors files.
    assert {name: spec(name).total_bytes // 4 for name in LLAMAS} == {
        "llama-1b": 1_100_048_384, "llama-7b": 6_738_415_616, "llama-13b": 13_015_864_320,
        "llama-34b": 33_743_970_304, "llama-70b": 68_976_648_192,
    }  # fmt: skip
    names = PUBLISHED_MODELS["llama-70b"]()
    assert names["model.layers.79.self_attn.k_proj.weight"] == (1024, 8192)
    assert next(iter(names)) == "model.embed_tokens.weight"
    assert list(names)[-1] == "lm_head.weight"


def _clip_large(transformers: Any) -> Any:
    text = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    vision = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "patch_size": 14}
    return transformers.CLIPConfig(
        projection_dim=768, text_config=text, vision_config={**vision, "num_attention_heads": 16}
    )


def _whisper_large(transformers: Any) -> Any:
    return transformers.WhisperConfig(
        vocab_size=51_866, num_mel_bins=128, d_model=1280, encoder_layers=32, decoder_layers=32,
        encoder_attention_heads=20, decoder_attention_heads=20, encoder_ffn_dim=5120, decoder_ffn_dim=5120,
    )  # fmt: skip


def test_equal_tensors_share_the_size_out_to_the_last_number() -> None:
    shapes = equal_shapes(3, 40)
    assert list(shapes.values()) == [(3,), (3,), (4,)]


def test_a_seed_gives_the_same_weights_and_another_seed_others() -> None:
    one, same, other = (make_state(spec("tensors", tensors=4, size_bytes=4096, seed=seed)) for seed in (1, 1, 2))
    assert list(one) == list(same)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not any(torch.equal(one[name], other[name]) for name in one)
    assert len({tensor.sum().item() for tensor in one.values()}) == 4, "no two tensors alike"


def test_tied_weights_are_one_tensor_and_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tied = {"embedding.weight": (10, 4), "head.weight": "embedding.weight", "scale": ()}
    monkeypatch.setitem(PUBLISHED_MODELS, "vit-base", lambda: tied)  # type: ignore[arg-type]  # it is a dictionary
    description = spec("vit-base")
    state = make_state(description)
    assert state["head.weight"] is state["embedding.weight"]
    assert description.total_bytes == state_bytes(state) == 4 * (10 * 4 + 1)


def test_each_step_changes_every_tensor_all_over() -> None:
    state = make_state(spec("tensors", tensors=3, size_bytes=600_000)) | {"empty": torch.empty(0)}
    before = {name: tensor.clone() for name, tensor in state.items()}
    for step in range(2):
        mark_state(state, step)
        for name in state:
            ranges = zip(state[name].split(16_384), before[name].split(16_384), strict=True)
            assert not any(torch.equal(now, then) for now, then in ranges if now.numel())
        before = {name: tensor.clone() for name, tensor in state.items()}


def test_a_copy_is_timed_by_all_threads_and_by_one_and_leaves_them_as_they_were() -> None:
    state = {"a": torch.ones(1000), "b": torch.ones(3)}
    before, seen = torch.get_num_threads(), list[int]()
    torch.set_num_threads(2)
    try:
        started_s, ended_s = time_copy(state | {"c": state["a"]}, ready=lambda: seen.append(torch.get_num_threads()))
        assert (seen, torch.get_num_threads()) == ([2, 1], 2)
    finally:
        torch.set_num_threads(before)
    assert ended_s >= started_s
