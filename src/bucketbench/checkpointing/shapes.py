"""The tensors of models by name: their shapes as published, worked out without the models' code or a download.

A value of the returned mappings is a tensor's shape, or the name of an earlier tensor that it is tied to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

__all__ = ["PUBLISHED_MODELS", "Shape", "Shapes", "equal_shapes", "transformer_shapes"]

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape | str]
_Named = Iterator[tuple[str, Shape | str]]


def transformer_shapes(layers: int) -> Shapes:
    """Lightning's demo Transformer, its encoder and its decoder with ``layers`` layers each.

    *Source*: Lightning, ``pytorch.demos.Transformer``, with the 33,278 words of WikiText2 and a width of 200.
    """
    return dict(_transformer(layers, words=33_278, width=200))


def equal_shapes(tensors: int, size_bytes: int) -> Shapes:
    """Tensors of float32 that are as equal as they can be and have ``size_bytes``, rounded down to 4, together."""
    numbers = size_bytes // 4
    return {
        f"tensor.{index:05}": ((index + 1) * numbers // tensors - index * numbers // tensors,)
        for index in range(tensors)
    }


def _transformer(layers: int, *, words: int, width: int) -> _Named:
    yield from _matrix("embedding", words, width, bias=False)
    for index in range(layers):
        name = f"transformer.encoder.layers.{index}"
        yield from _torch_attention(f"{name}.self_attn", width)
        yield from _mlp(name, width, width, first="linear1", second="linear2")
        yield from _norms(name, width, "norm1", "norm2")
    yield from _norms("transformer.encoder", width, "norm")
    for index in range(layers):
        name = f"transformer.decoder.layers.{index}"
        yield from _torch_attention(f"{name}.self_attn", width)
        yield from _torch_attention(f"{name}.multihead_attn", width)
        yield from _mlp(name, width, width, first="linear1", second="linear2")
        yield from _norms(name, width, "norm1", "norm2", "norm3")
    yield from _norms("transformer.decoder", width, "norm")
    yield from _matrix("decoder", words, width)


def _vit(*, width: int, layers: int, side: int, patch: int) -> _Named:
    yield "embeddings.cls_token", (1, 1, width)
    yield "embeddings.position_embeddings", (1, (side // patch) ** 2 + 1, width)
    yield "embeddings.patch_embeddings.projection.weight", (width, 3, patch, patch)
    yield "embeddings.patch_embeddings.projection.bias", (width,)
    for index in range(layers):
        name = f"encoder.layer.{index}"
        yield from _attention(f"{name}.attention", width)
        yield from _mlp(f"{name}.mlp", width, 4 * width)
        yield from _norms(name, width, "layernorm_before", "layernorm_after")
    yield from _norms("", width, "layernorm")
    yield from _matrix("pooler.dense", width, width)


def _clip(*, text_width: int, text_layers: int, vision_width: int, vision_layers: int, side: int, patch: int) -> _Named:
    yield "logit_scale", ()
    yield from _matrix("text_model.embeddings.token_embedding", 49_408, text_width, bias=False)
    yield from _matrix("text_model.embeddings.position_embedding", 77, text_width, bias=False)
    yield from _clip_layers("text_model", text_width, text_layers)
    yield from _norms("text_model", text_width, "final_layer_norm")
    yield "vision_model.embeddings.class_embedding", (vision_width,)
    yield "vision_model.embeddings.patch_embedding.weight", (vision_width, 3, patch, patch)
    yield from _matrix("vision_model.embeddings.position_embedding", (side // patch) ** 2 + 1, vision_width, bias=False)
    yield from _norms("vision_model", vision_width, "pre_layrnorm", "post_layernorm")
    yield from _clip_layers("vision_model", vision_width, vision_layers)
    yield from _matrix("visual_projection", text_width, vision_width, bias=False)
    yield from _matrix("text_projection", text_width, text_width, bias=False)


def _clip_layers(part: str, width: int, layers: int) -> _Named:
    for index in range(layers):
        name = f"{part}.encoder.layers.{index}"
        yield from _attention(f"{name}.self_attn", width)
        yield from _mlp(f"{name}.mlp", width, 4 * width)
        yield from _norms(name, width, "layer_norm1", "layer_norm2")


def _whisper(*, width: int, layers: int, words: int, mels: int) -> _Named:
    yield "model.encoder.conv1.weight", (width, mels, 3)
    yield "model.encoder.conv1.bias", (width,)
    yield "model.encoder.conv2.weight", (width, width, 3)
    yield "model.encoder.conv2.bias", (width,)
    yield from _matrix("model.encoder.embed_positions", 1_500, width, bias=False)
    yield from _whisper_layers("model.encoder", width, layers, attentions=("self_attn",))
    yield from _matrix("model.decoder.embed_tokens", words, width, bias=False)
    yield from _matrix("model.decoder.embed_positions", 448, width, bias=False)
    yield from _whisper_layers("model.decoder", width, layers, attentions=("self_attn", "encoder_attn"))
    yield "proj_out.weight", "model.decoder.embed_tokens.weight"


def _whisper_layers(part: str, width: int, layers: int, *, attentions: tuple[str, ...]) -> _Named:
    for index in range(layers):
        name = f"{part}.layers.{index}"
        for attention in attentions:
            yield from _attention(f"{name}.{attention}", width, key_bias=False)
            yield from _norms(name, width, f"{attention}_layer_norm")
        yield from _mlp(name, width, 4 * width)
        yield from _norms(name, width, "final_layer_norm")
    yield from _norms(part, width, "layer_norm")


def _t5(*, width: int, inner: int, heads: int, layers: int) -> _Named:
    words, buckets, attended = 32_128, 32, heads * 64
    yield from _matrix("shared", words, width, bias=False)
    for part, attentions in (("encoder", ("SelfAttention",)), ("decoder", ("SelfAttention", "EncDecAttention"))):
        yield f"{part}.embed_tokens.weight", "shared.weight"
        for index in range(layers):
            for place, attention in enumerate(attentions):
                name = f"{part}.block.{index}.layer.{place}"
                for letter in "qkv":
                    yield from _matrix(f"{name}.{attention}.{letter}", attended, width, bias=False)
                yield from _matrix(f"{name}.{attention}.o", width, attended, bias=False)
                if index == place == 0:
                    yield from _matrix(f"{name}.{attention}.relative_attention_bias", buckets, heads, bias=False)
                yield f"{name}.layer_norm.weight", (width,)
            name = f"{part}.block.{index}.layer.{len(attentions)}"
            for gate in ("wi_0", "wi_1"):
                yield from _matrix(f"{name}.DenseReluDense.{gate}", inner, width, bias=False)
            yield from _matrix(f"{name}.DenseReluDense.wo", width, inner, bias=False)
            yield f"{name}.layer_norm.weight", (width,)
        yield f"{part}.final_layer_norm.weight", (width,)
    yield from _matrix("lm_head", words, width, bias=False)


def _llama(*, width: int, inner: int, layers: int, heads: int, key_heads: int) -> _Named:
    words, key_width = 32_000, width // heads * key_heads
    yield from _matrix("model.embed_tokens", words, width, bias=False)
    for index in range(layers):
        name = f"model.layers.{index}"
        for letter, rows in (("q", width), ("k", key_width), ("v", key_width), ("o", width)):
            yield from _matrix(f"{name}.self_attn.{letter}_proj", rows, width, bias=False)
        for gate in ("gate_proj", "up_proj"):
            yield from _matrix(f"{name}.mlp.{gate}", inner, width, bias=False)
        yield from _matrix(f"{name}.mlp.down_proj", width, inner, bias=False)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{name}.{norm}.weight", (width,)
    yield "model.norm.weight", (width,)
    yield from _matrix("lm_head", words, width, bias=False)


def _matrix(name: str, rows: int, columns: int, *, bias: bool = True) -> _Named:
    yield f"{name}.weight", (rows, columns)
    if bias:
        yield f"{name}.bias", (rows,)


def _norms(part: str, width: int, *names: str) -> _Named:
    for name in names:
        for kind in ("weight", "bias"):
            yield f"{part}.{name}.{kind}".removeprefix("."), (width,)


def _mlp(part: str, width: int, inner: int, *, first: str = "fc1", second: str = "fc2") -> _Named:
    yield from _matrix(f"{part}.{first}", inner, width)
    yield from _matrix(f"{part}.{second}", width, inner)


def _attention(part: str, width: int, *, key_bias: bool = True) -> _Named:
    yield from _matrix(f"{part}.k_proj", width, width, bias=key_bias)
    for name in ("v_proj", "q_proj", "out_proj"):
        yield from _matrix(f"{part}.{name}", width, width)


def _torch_attention(part: str, width: int) -> _Named:
    yield f"{part}.in_proj_weight", (3 * width, width)
    yield f"{part}.in_proj_bias", (3 * width,)
    yield from _matrix(f"{part}.out_proj", width, width)


PUBLISHED_MODELS: Final[Mapping[str, Callable[[], Shapes]]] = {
    "vit-base": lambda: dict(_vit(width=768, layers=12, side=224, patch=16)),
    "clip-vit": lambda: dict(
        _clip(text_width=768, text_layers=12, vision_width=1_024, vision_layers=24, side=224, patch=14)
    ),
    "whisper": lambda: dict(_whisper(width=1_280, layers=32, words=51_866, mels=128)),
    "T0_3B": lambda: dict(_t5(width=2_048, inner=5_120, heads=32, layers=24)),
    "T0pp": lambda: dict(_t5(width=4_096, inner=10_240, heads=64, layers=24)),
    "llama-1b": lambda: dict(_llama(width=2_048, inner=5_632, layers=22, heads=32, key_heads=4)),
    "llama-7b": lambda: dict(_llama(width=4_096, inner=11_008, layers=32, heads=32, key_heads=32)),
    "llama-13b": lambda: dict(_llama(width=5_120, inner=13_824, layers=40, heads=40, key_heads=40)),
    "llama-34b": lambda: dict(_llama(width=8_192, inner=22_016, layers=48, heads=64, key_heads=8)),
    "llama-70b": lambda: dict(_llama(width=8_192, inner=28_672, layers=80, heads=64, key_heads=8)),
}
"""The models that benchmarks of checkpoints publish figures of.

*Source*: the configurations of google/vit-base-patch16-224-in21k, openai/clip-vit-large-patch14,
openai/whisper-large-v3, bigscience/T0_3B, bigscience/T0pp, TinyLlama/TinyLlama-1.1B-Chat-v1.0,
meta-llama/Llama-2-7b-hf, -13b-hf and -70b-hf, and codellama/CodeLlama-34b-hf on the Hugging Face Hub.
"""
