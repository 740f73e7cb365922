"""Models: nothing, tensors, and real training steps."""

from __future__ import annotations

import importlib
import io
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from bucketbench.datagen import DatasetSpec
from bucketbench.datagen.images import encode_image
from bucketbench.errors import UsageError
from bucketbench.models.decode import DecodeModel
from bucketbench.models.none import NoModel
from bucketbench.models.simulated import SimulatedModel
from bucketbench.models.vit import VitModel

MODEL_DIRECTORY = Path(__file__).parents[3] / "conf" / "model"
TINY: dict[str, Any] = {
    "side": 32,
    "patch_side": 16,
    "hidden_size": 32,
    "num_layers": 2,
    "num_heads": 2,
    "num_classes": 4,
    "learning_rate": 0.01,
    "seed": 3,
}


def image_file(width: int, height: int, *, image_format: str = "JPEG", mode: str = "RGB") -> bytes:
    """A picture that is red in its left half, blue in its right one."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0] = pixels[:, width // 2 :, 2] = 255
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, image_format)
    return file.getvalue()


@pytest.mark.parametrize("name", sorted(path.stem for path in MODEL_DIRECTORY.glob("*.yaml")))
def test_every_configuration_builds_its_model(name: str) -> None:
    text = (MODEL_DIRECTORY / f"{name}.yaml").read_text().replace("${dataloader.batch_size}", "32")
    config: dict[str, Any] = yaml.safe_load(text)
    module, _, attribute = config["_target_"].rpartition(".")
    model = getattr(importlib.import_module(module), attribute)(**config["options"])
    assert config["name"] == name
    pickle.loads(pickle.dumps(model))  # as a DataLoader sends it to spawned workers


def test_none_passes_on_nothing() -> None:
    model = NoModel()
    model.prepare(torch.device("cpu"))
    assert model.collate([model.decode(b"x") for _ in range(3)]) is None


def test_simulated_compute_takes_its_time_and_passes_every_byte_on() -> None:
    model = SimulatedModel(compute_time_s=0.08, batch_size=4)
    model.prepare(torch.device("cpu"))
    batch = model.collate([model.decode(data) for data in (b"ab", bytearray(b"c"), memoryview(b"de"))])
    assert bytes(batch[0].numpy()) == b"abcde"
    started_s = time.monotonic()
    model.step(batch)
    # At least its three quarters; how much more is the machine's affair.
    assert time.monotonic() - started_s >= 0.06


@pytest.mark.parametrize(
    ("changes", "words"), [({"compute_time_s": 0}, "compute_time_s"), ({"batch_size": 0}, "batch_size")]
)
def test_simulated_compute_refuses_what_it_cannot_do(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        SimulatedModel(**{"compute_time_s": 0.1, "batch_size": 4, **changes})


@pytest.mark.parametrize("size", [(64, 64), (300, 100), (100, 300), (20, 10), (33, 32), (1000, 700)])
@pytest.mark.parametrize("image_format", ["JPEG", "PNG"])
def test_images_of_any_size_become_one(size: tuple[int, int], image_format: str) -> None:
    tensor = DecodeModel(side=32).decode(memoryview(image_file(*size, image_format=image_format)))
    assert tensor.shape == (3, 32, 32)
    assert tensor.dtype == torch.uint8
    assert tensor.is_contiguous()
    red, green, blue = tensor.float().mean(dim=1)  # over the rows
    assert red[:8].mean() > 200 > 60 > blue[:8].mean()
    assert blue[-8:].mean() > 200 > 60 > red[-8:].mean()
    assert green.mean() < 30


@pytest.mark.parametrize("mode", ["L", "P", "RGBA"])
def test_other_colour_modes_become_rgb(mode: str) -> None:
    content = image_file(40, 40, image_format="PNG", mode=mode)
    assert DecodeModel(side=16).decode(content).shape == (3, 16, 16)


@pytest.mark.parametrize("content", [b"", b"no image", image_file(64, 64)[:300]])
def test_what_is_no_whole_image_is_an_error(content: bytes) -> None:
    with pytest.raises(OSError, match=r"(?i)image|truncated"):
        DecodeModel(side=32).decode(content)


def test_a_batch_of_generated_samples() -> None:
    model, spec = DecodeModel(side=64), DatasetSpec(num_samples=3, sample_size_bytes=20_000)
    model.prepare(torch.device("cpu"))
    batch = model.collate([model.decode(encode_image(spec, index=i, size_bytes=20_000)) for i in range(3)])
    assert batch.shape == (3, 3, 64, 64)
    assert not torch.equal(batch[0], batch[1])
    model.step(batch)


def test_vit_training_changes_the_weights() -> None:
    model = VitModel(**TINY)
    model.prepare(torch.device("cpu"))
    before = [parameter.detach().clone() for parameter in model.network.parameters()]
    generator = torch.Generator().manual_seed(0)
    batch = torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8, generator=generator)
    model.step(batch)
    changed = [not torch.equal(old, new) for old, new in zip(before, model.network.parameters(), strict=True)]
    assert sum(changed) > 0.8 * len(changed)


def test_vit_steps_are_reproducible_and_leave_the_global_random_state_alone() -> None:
    batch = torch.arange(4 * 3 * 32 * 32).remainder(251).to(torch.uint8).view(4, 3, 32, 32)
    weights = []
    state = torch.get_rng_state()
    for _ in range(2):
        model = VitModel(**TINY)
        model.prepare(torch.device("cpu"))
        model.step(batch)
        weights.append(torch.cat([parameter.flatten() for parameter in model.network.parameters()]))
    torch.testing.assert_close(weights[0], weights[1])
    assert torch.equal(torch.get_rng_state(), state)


def test_vit_must_be_prepared_and_refuses_a_loss_that_is_not_finite() -> None:
    model = VitModel(**TINY)
    with pytest.raises(RuntimeError, match="prepare"):
        model.step(torch.zeros(1, 3, 32, 32, dtype=torch.uint8))
    model.prepare(torch.device("cpu"))
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="nan"):
        model.step(torch.zeros(1, 3, 32, 32, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"patch_side": 15}, "patch_side must divide"),
        ({"num_heads": 3}, "num_heads must divide"),
        ({"side": 0}, "side"),
    ],
)
def test_sizes_that_do_not_fit_are_named(change: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        VitModel(**{**TINY, **change})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_vit_steps_on_a_gpu() -> None:
    model = VitModel(**TINY)
    model.prepare(torch.device("cuda"))
    model.step(torch.zeros(4, 3, 32, 32, dtype=torch.uint8).pin_memory())
    assert next(model.network.parameters()).is_cuda
