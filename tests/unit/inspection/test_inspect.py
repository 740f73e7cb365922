"""``torchbucket inspect``: what a checkpoint holds, from its headers alone and without running what it names."""

from __future__ import annotations

import argparse
import io
import itertools
import json
import pickle
import random
import struct
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import safetensors.torch
import torch

from torchbucket import CheckpointError, ConfigError, NotFoundError, open_store
from torchbucket.cli import main
from torchbucket.inspection import inspect_checkpoint
from torchbucket.safetensors import save_file, save_sharded
from torchbucket.store.wrappers import MeteredStore

_numbers = itertools.count()


@pytest.fixture
def bucket() -> str:
    """The address of an empty bucket in memory."""
    return f"memory://inspect-{next(_numbers)}"


class Custom:
    """A class that ``weights_only`` refuses."""

    def __init__(self) -> None:
        self.weight = torch.ones(3, dtype=torch.uint16)


def state() -> dict[str, object]:
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Linear(4, 2, bias=False))
    # As Adam's, whose import takes seconds.
    adam = {
        number: {
            "step": torch.tensor(1.0),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
        for number, parameter in enumerate(model.parameters())
    }
    weight = model[0].weight
    return {
        "state_dict": model.state_dict(),
        "tied": weight,
        "row": weight[1],
        "optimizer_states": [{"state": adam, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": [0, 1, 2]}]}],
        "epoch": 3,
        "bytes": bytearray(b"some"),
        "hyper_parameters": argparse.Namespace(scale=torch.tensor(2.0), name="x"),
        "custom": Custom(),
        "others": (torch.ones(2).to(torch.float8_e5m2), {torch.float16}, torch.empty(0, 3, dtype=torch.bool)),
        "buffer": torch.nn.Parameter(torch.ones(2, dtype=torch.complex64), requires_grad=False),
        "sparse": torch.eye(3).to_sparse(),
        "meta": torch.ones(3, 1, device="meta"),
        "storage": torch.ones(3, dtype=torch.bfloat16).untyped_storage(),
        1: torch.ones(1),
    }


TENSORS = {
    "state_dict.0.weight": ("float32", (4, 8), 128),
    "state_dict.0.bias": ("float32", (4,), 16),
    "state_dict.1.weight": ("float32", (2, 4), 32),
    "tied": ("float32", (4, 8), 128),
    "row": ("float32", (8,), 32),
    "optimizer_states.0.state.0.step": ("float32", (), 4),
    "optimizer_states.0.state.0.exp_avg": ("float32", (4, 8), 128),
    "optimizer_states.0.state.0.exp_avg_sq": ("float32", (4, 8), 128),
    "optimizer_states.0.state.1.step": ("float32", (), 4),
    "optimizer_states.0.state.1.exp_avg": ("float32", (4,), 16),
    "optimizer_states.0.state.1.exp_avg_sq": ("float32", (4,), 16),
    "optimizer_states.0.state.2.step": ("float32", (), 4),
    "optimizer_states.0.state.2.exp_avg": ("float32", (2, 4), 32),
    "optimizer_states.0.state.2.exp_avg_sq": ("float32", (2, 4), 32),
    "hyper_parameters.scale": ("float32", (), 4),
    "custom.weight": ("uint16", (3,), 6),
    "others.0": ("float8_e5m2", (2,), 2),
    "others.2": ("bool", (0, 3), 0),
    "buffer": ("complex64", (2,), 16),
    "sparse.indices": ("int64", (2, 3), 48),
    "sparse.values": ("float32", (3,), 12),
    "meta": ("float32", (3, 1), 0),
    "storage": ("uint8", (6,), 6),
    "1": ("float32", (1,), 4),
}
# What the tied tensor and its row share counts once.
TOTAL = sum(size for _, _, size in TENSORS.values()) - 128 - 32


def found(uri: str) -> dict[str, tuple[str, tuple[int, ...], int]]:
    return {t.name: (t.dtype, t.shape, t.size_bytes) for t in inspect_checkpoint(uri).tensors}


def write_torch(uri: str, value: object, **options: object) -> None:
    store, _, key = uri.rpartition("/")
    with open_store(store).open_writer(key) as writer:
        torch.save(value, writer, **options)


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 5}], ids=str)
def test_torch_checkpoints_tell_their_tensors(bucket, options):
    write_torch(f"{bucket}/m.ckpt", state(), **options)
    contents = inspect_checkpoint(f"{bucket}/m.ckpt")
    assert found(f"{bucket}/m.ckpt") == TENSORS
    assert contents.format == ("torch (legacy format)" if "_use_new_zipfile_serialization" in options else "torch")
    assert contents.tensors_bytes == TOTAL
    assert contents.files == {f"{bucket}/m.ckpt": open_store(bucket).head("m.ckpt").size_bytes}
    assert contents.other_values > 3


def test_names_shapes_and_dtypes_are_those_that_loading_gives(bucket):
    model = torch.nn.TransformerEncoderLayer(16, 2, 32)
    write_torch(f"{bucket}/m.pt", model.state_dict())
    assert found(f"{bucket}/m.pt") == {
        name: (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tensor.nbytes)
        for name, tensor in model.state_dict().items()
    }


def test_an_archive_without_crcs(bucket):
    """As ``set_crc32_options(False)`` has it, and savers that lay the archive out without the data."""
    stream = io.BytesIO()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"a": torch.ones(3)}, stream)
    finally:
        torch.serialization.set_crc32_options(True)
    open_store(bucket).write("m", stream.getvalue())
    assert found(f"{bucket}/m") == {"a": ("float32", (3,), 12)}


@pytest.mark.parametrize("kind", ["torch", "legacy", "safetensors", "sharded"])
def test_headers_alone_are_read(bucket, kind, monkeypatch):
    tensors = {f"layer.{number}": torch.zeros(1 << 20) for number in range(8)}
    uri = f"{bucket}/m"
    if kind == "safetensors":
        save_file(tensors, uri)
    elif kind == "sharded":
        save_sharded(tensors, uri, max_shard_bytes=16 << 20)
    else:
        write_torch(uri, tensors, _use_new_zipfile_serialization=kind == "torch")
    store = MeteredStore(open_store(bucket))
    for module in ("safetensors.places", "inspection.formats"):
        monkeypatch.setattr(f"torchbucket.{module}.shared_store", lambda location, config: store)
    contents = inspect_checkpoint(uri)
    assert contents.tensors_bytes == 32 << 20
    usage = store.usage().total
    assert usage.read_bytes < 400 << 10
    assert usage.calls <= 8


class Boom:
    """Runs code where it is unpickled as it asks for."""

    def __reduce__(self):
        return (exec, ("import pathlib; pathlib.Path('/tmp/torchbucket-inspect-ran').touch(); raise SystemExit(99)",))


class Grows:
    def __reduce__(self):
        return (bytearray, (1 << 60,))


def test_nothing_that_a_pickle_names_is_run(bucket, tmp_path, monkeypatch):
    path = Path("/tmp/torchbucket-inspect-ran")
    path.unlink(missing_ok=True)
    value = {"w": torch.ones(2), "boom": Boom(), "grows": Grows(), "o": OrderedDict(a=torch.ones(1))}
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        write_torch(f"{bucket}/m", value, **options)
        assert found(f"{bucket}/m") == {"w": ("float32", (2,), 8), "o.a": ("float32", (1,), 4)}
    assert not path.exists()


def archive_of(pickled: bytes, **records: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        for name, data in records.items():
            archive.writestr(f"archive/data/{name}", data)
    return stream.getvalue()


def nested(depth: int) -> bytes:
    return b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b"."


def saved(value: object) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


WHOLE = saved({"a": torch.arange(100), "b": torch.ones(3, 3)})
STORAGE = b"((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
LEGACY = (
    b"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
    + pickle.dumps(1001, protocol=2)
    + pickle.dumps({}, protocol=2)
)
# More digits than Python writes down.
HUGE = pickle.dumps(10**5000, protocol=2)[2:-1]


def meta_tensor(shape: bytes) -> bytes:
    return b"\x80\x02ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nfloat32\n(" + shape + b"tI00\ntR."


BAD = {
    "a shape beyond counting": archive_of(meta_tensor(HUGE)),
    "a shape that takes minutes to multiply": archive_of(meta_tensor((b"\x8a\x08" + b"\xff" * 7 + b"\x3f") * 200_000)),
    "a storage beyond counting": archive_of(STORAGE[1:].replace(b"K\x04", HUGE) + b".", **{"0": bytes(16)}),
    "legacy beyond counting": LEGACY + b"\x80\x02" + STORAGE[1:].replace(b"K\x04", HUGE) + b".",
    "legacy without its storages": LEGACY + b"\x80\x02" + STORAGE[1:] + b".",
    "a long name for many tensors": archive_of(
        b"\x80\x02" + STORAGE[1:] + b"q\x010}X" + (20_000).to_bytes(4, "little") + b"a" * 20_000 + b"](h\x01h\x01es.",
        **{"0": bytes(16)},
    ),
    "empty": b"",
    "text": b"hello, this is no checkpoint\n" * 9,
    "html": b"<html></html>",
    "only a pickle": pickle.dumps({"a": 1}),
    "cut archive": WHOLE[: len(WHOLE) // 2],
    "another zip": archive_of(b"").replace(b"data.pkl", b"note.txt"),
    "no pickle": archive_of(b""),
    "cut pickle": archive_of(b"\x80\x02}q\x00("),
    "a list's end": archive_of(b"\x80\x02u."),
    "deep": archive_of(nested(3000)),
    "extension": archive_of(b"\x80\x02\x82\x01."),
    "no storage kind": archive_of(b"\x80\x02(X\x07\x00\x00\x00storageK\x01K\x02K\x03K\x04tQ."),
    "negative size": archive_of(STORAGE.replace(b"K\x04", b"J\xff\xff\xff\xff") + b"."),
    "absent record": archive_of(STORAGE[1:] + b"."),
    "short record": archive_of(STORAGE[1:] + b".", **{"0": b"123"}),
    "no storage": archive_of(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(K\x01K\x00)K\x01tR."),
    "shape of texts": archive_of(
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + STORAGE + b"K\x00X\x01\x00\x00\x00atR.", **{"0": bytes(16)}
    ),
    "a function's attributes": archive_of(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x01\x00\x00\x00aK\x01sb."),
    "a function's defaults": archive_of(
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nN}X\x0c\x00\x00\x00__defaults__K\x01\x85s\x86b."
    ),
    "a class's attributes": archive_of(b"\x80\x02cfoo\nBar\n}X\x04\x00\x00\x00pathK\x01sb."),
    "a storage's fields": archive_of(STORAGE[1:] + b"]K\x01ab.", **{"0": bytes(16)}),
    "bytes that are not there": archive_of(b"\x80\x05\x96" + (1 << 42).to_bytes(8, "little") + b"."),
    "bytes beyond counting": archive_of(b"\x80\x05\x96" + b"\xff" * 8 + b"."),
    "legacy cut": b"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02",
    "safetensors cut": safetensors.torch.save({"a": torch.ones(9)})[:-1],
}


@pytest.mark.parametrize("case", BAD)
def test_a_damaged_file_is_an_error_that_names_it(bucket, case, capsys):
    open_store(bucket).write("m", BAD[case])
    with pytest.raises(CheckpointError, match=f"{bucket}/m"):
        inspect_checkpoint(f"{bucket}/m")
    assert main(["inspect", f"{bucket}/m"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1 and err.startswith("torchbucket: memory://")


@pytest.mark.parametrize("kind", ["directory", "line", "text"])
def test_a_file_that_calls_all_of_it_a_header_is_not_read_whole(bucket, monkeypatch, kind):
    monkeypatch.setattr("torchbucket.inspection.torch_files._HEADER_BYTES_LIMIT", 1000)
    data = {
        # The end of an archive's directory: where that begins, and how long it is.
        "directory": b"PK\x03\x04" + bytes(9996) + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, 10_000, 0, 0),
        "line": LEGACY + b"\x80\x02c" + bytes(10_000),
        "text": LEGACY + b"\x80\x02X" + struct.pack("<L", 9000) + bytes(10_000),
    }[kind]
    open_store(bucket).write("m", data)
    with pytest.raises(CheckpointError, match="longer than 1000 bytes"):
        inspect_checkpoint(f"{bucket}/m")


def test_a_key_of_more_digits_than_python_writes_is_a_name(bucket):
    open_store(bucket).write("m", saved({10**5000: torch.ones(1)}))
    (tensor,) = inspect_checkpoint(f"{bucket}/m").tensors
    assert tensor.name == hex(10**5000)


def test_any_damage_is_an_error_or_harmless(bucket):
    """Bytes changed at random in the pickle and the directory: never another kind of exception."""
    random_, store = random.Random(3), open_store(bucket)
    legacy = io.BytesIO()
    torch.save(state(), legacy, _use_new_zipfile_serialization=False)
    whole = [saved(state()), legacy.getvalue(), safetensors.torch.save({"a": torch.ones(3), "b": torch.ones(1)})]
    refused = 0
    for number in range(400):
        data = bytearray(whole[number % 3])
        for _ in range(random_.choice([1, 1, 4])):
            data[random_.randrange(len(data))] = random_.randrange(256)
        store.write("m", data)
        try:
            inspect_checkpoint(f"{bucket}/m")
        except CheckpointError:
            refused += 1
    assert refused > 50


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["inspect", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_command_prints_a_table(bucket, capsys):
    tensors = {"layer.weight": torch.zeros(256, 1024), "layer.bias": torch.zeros(256, dtype=torch.bfloat16)}
    save_file(tensors, f"{bucket}/m.safetensors", {"format": "pt"})
    size = open_store(bucket).head("m.safetensors").size_bytes
    assert run(f"{bucket}/m.safetensors", capsys=capsys).splitlines() == [
        f"{bucket}/m.safetensors: safetensors, 1 file of 1.0 MiB",
        "2 tensors of 1.0 MiB, 0 other values",
        "format: pt",
        "",
        "name          dtype     shape            bytes",
        "layer.weight  float32   [256, 1024]  1,048,576",
        "layer.bias    bfloat16  [256]              512",
    ]
    found = json.loads(run(f"{bucket}/m.safetensors", "--json", capsys=capsys))
    assert found == {
        "uri": f"{bucket}/m.safetensors",
        "format": "safetensors",
        "files": {f"{bucket}/m.safetensors": size},
        "tensors": [
            {"name": name, "dtype": dtype, "shape": shape, "size_bytes": length, "file": f"{bucket}/m.safetensors"}
            for name, dtype, shape, length in (
                ("layer.weight", "float32", [256, 1024], 1 << 20),
                ("layer.bias", "bfloat16", [256], 512),
            )
        ],
        "tensors_bytes": (1 << 20) + 512,
        "other_values": 0,
        "metadata": {"format": "pt"},
    }


def test_the_command_tells_the_file_of_each_tensor(bucket, capsys):
    save_sharded({"a": torch.ones(4), "b": torch.ones(4)}, f"{bucket}/dir", max_shard_bytes=16)
    names = {info.key.removeprefix("dir/") for info in open_store(bucket).list("dir/model-")}
    for address in ("dir", "dir/", "dir/model.safetensors.index.json"):
        lines = run(f"{bucket}/{address}", capsys=capsys).splitlines()
        assert "2 files" in lines[0]
        assert {line.split()[-1] for line in lines[-2:]} == names


def test_a_checkpoint_without_tensors_has_its_file_all_the_same(bucket):
    save_file({}, f"{bucket}/m", {"a": "b"})
    contents = inspect_checkpoint(f"{bucket}/m")
    assert (list(contents.files), contents.tensors, contents.metadata) == ([f"{bucket}/m"], [], {"a": "b"})


def test_names_cannot_steer_a_terminal(bucket, capsys):
    name = "evil\n\x1b[31m\u202e"
    save_file({name: torch.ones(1)}, f"{bucket}/m", {name: name})
    write_torch(f"{bucket}/m.pt", {name: torch.ones(1)})
    for uri in (f"{bucket}/m", f"{bucket}/m.pt"):
        out = run(uri, capsys=capsys)
        assert "\x1b" not in out and "\u202e" not in out
        assert "evil\\n\\x1b[31m" in out
        assert json.loads(run(uri, "--json", capsys=capsys))["tensors"][0]["name"] == name


def test_what_is_absent_or_no_address(bucket, capsys):
    for uri in (f"{bucket}/m", f"{bucket}/dir/", bucket):
        with pytest.raises(NotFoundError):
            inspect_checkpoint(uri)
        assert main(["inspect", uri]) == 1
    with pytest.raises(ConfigError):
        inspect_checkpoint("m.safetensors")
    assert main(["inspect", "m.safetensors"]) == 2
    assert main(["inspect"]) == 2


def test_the_command_does_not_load_torch(tmp_path):
    path = tmp_path / "m.pt"
    path.write_bytes(WHOLE)
    safetensors.torch.save_file({"a": torch.ones(2)}, tmp_path / "m.safetensors")
    program = (
        "import sys; from torchbucket.cli import main; "
        f"assert main(['inspect', {str(path)!r}]) == main(['inspect', {str(tmp_path / 'm.safetensors')!r}]) == 0; "
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
