"""Headers of anybody's: what the library refuses is refused, and by a message that says what is wrong."""

from __future__ import annotations

import copy
import json
import random
import struct

import pytest
import safetensors
import safetensors.torch
import torch
from stored_tensors import file_of, filled, same_tensors

from torchbucket import CheckpointError, open_store
from torchbucket.safetensors import load_file, safe_open, save_file, stream
from torchbucket.safetensors.header import HEADER_BYTES_LIMIT

TWO = {
    "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    "b": {"dtype": "U8", "shape": [3], "data_offsets": [8, 11]},
}
PAYLOAD = b"01234567abc"


def two(**changes: dict[str, object] | None) -> bytes:
    """A file of two tensors with fields of one changed; None removes it."""
    header = copy.deepcopy(TWO)
    for name, fields in changes.items():
        header[name].update(fields)
    return file_of(header, PAYLOAD)


BAD = {
    "nothing": (b"", "it has 0 bytes"),
    "seven bytes": (b"\x01\0\0\0\0\0\0", "it has 7 bytes"),
    "no header": (struct.pack("<Q", 10), "its header ends at 18 bytes, and the object has 8"),
    "long header": (struct.pack("<Q", HEADER_BYTES_LIMIT + 1) + bytes(9), "no safetensors file"),
    "huge header": (b"\xff" * 64, "no safetensors file"),
    "html": (b"<!DOCTYPE html><html></html>", "no safetensors file"),
    "empty header": (file_of(b""), "no JSON"),
    "no JSON": (file_of(b"{nonsense"), "no JSON"),
    "no UTF-8": (file_of(b'{"\xff": 1}'), "no JSON"),
    "a UTF-16 header": (file_of(json.dumps(TWO).encode("utf-16"), PAYLOAD), "no JSON"),
    "half a character": (file_of(b'{"\\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'), "no JSON"),
    "a list": (file_of(b"[]"), "must be a JSON object; it is a list"),
    "deep": (file_of(b"[" * 200_000), "no JSON"),
    "deep objects": (file_of(b'{"a":' * 200_000), "no JSON"),
    "a long number": (file_of(b'{"a":' + b"9" * 100_000 + b"}"), "no JSON"),
    "NaN": (file_of(b'{"a":NaN}'), "NaN is no number"),
    "twice": (file_of(json.dumps(TWO).replace('"b"', '"a"').encode(), PAYLOAD), "'a' is there twice"),
    "a field twice": (
        file_of(json.dumps(TWO).replace('"dtype": "U8"', '"dtype": "U8", "dtype": "U8"').encode(), PAYLOAD),
        "'dtype' is there twice",
    ),
    "no entry": (file_of({"a": 3}), "'a' of its header must be an object"),
    "no dtype": (file_of({"a": {"shape": [1], "data_offsets": [0, 1]}}, b"x"), "dtype None"),
    "unknown dtype": (two(b={"dtype": "F128"}), "'b' has the dtype 'F128'; those known are BOOL"),
    "a list as dtype": (two(b={"dtype": ["U8"]}), "dtype"),
    "shape no list": (two(b={"shape": 3}), "has the shape 3"),
    "a negative length": (two(b={"shape": [-3]}), r"has the shape \[-3\]"),
    "half a length": (two(b={"shape": [3.0]}), "has the shape"),
    "true as length": (two(b={"shape": [True, 3]}), "has the shape"),
    "one offset": (two(b={"data_offsets": [8]}), "data_offsets"),
    "three offsets": (two(b={"data_offsets": [8, 11, 11]}), "data_offsets"),
    "backwards": (two(b={"data_offsets": [11, 8]}), "data_offsets"),
    "a negative offset": (two(a={"data_offsets": [-8, 0]}), "data_offsets"),
    "a text as offset": (two(a={"data_offsets": ["0", "8"]}), "data_offsets"),
    "too many elements": (two(b={"shape": [4]}), "has 4 bytes, and its data_offsets"),
    "more than can be counted": (two(b={"shape": [1 << 62, 1 << 62, 0]}), "more than can be counted"),
    "half a byte": (file_of({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}}, b"x"), "1.5 bytes"),
    "a hole": (two(b={"shape": [2], "data_offsets": [9, 11]}), "leave a hole before them"),
    "a hole first": (file_of({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}, b"xy"), "leave a hole"),
    "an overlap": (two(b={"shape": [4], "data_offsets": [7, 11]}), "overlap those before them"),
    "beyond the end": (two(b={"shape": [4], "data_offsets": [8, 12]}), r"ends at \d+ bytes, and the object has \d+"),
    "more behind": (two() + b"x", "it was cut, written in part, or belongs to another header"),
    "cut": (two()[:-1], "it was cut"),
    "metadata no object": (file_of({"__metadata__": 3}), "must be texts by name"),
    "metadata no text": (file_of({"__metadata__": {"a": 3}}), "must be texts by name"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_before_any_payload_is_read(bucket, metered, case):
    data, message = BAD[case]
    with pytest.raises(safetensors.SafetensorError):
        safetensors.deserialize(data)
    metered.write("m", data)
    for call in (load_file, safe_open, stream):
        with pytest.raises(CheckpointError, match=message) as caught:
            call(f"{bucket}/m")
        assert caught.value.uri == f"{bucket}/m"
        assert len(str(caught.value)) < 1000
    assert "submit_read_into" not in metered.usage().operations


STRICTER = ("a field twice", "more than can be counted", "twice")


def mutated(random_: random.Random) -> bytes:
    """A file whose header was changed at random."""
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
        "b": {"dtype": "U8", "shape": [3], "data_offsets": [8, 11]},
        "c": {"dtype": "F16", "shape": [0, 7], "data_offsets": [11, 11]},
    }
    for _ in range(random_.randint(0, 2)):
        name = random_.choice(list(header))
        entry = header[name]
        change = random_.randrange(7)
        if change == 0:
            del header[name]
            if not header:
                break
        elif name == "__metadata__" or not entry:
            header[name] = random_.choice([None, {}, {"a": "b"}, {"a": None}, [], "x"])
        elif change == 1:
            del entry[random_.choice(list(entry))]
        elif change == 2:
            entry["dtype"] = random_.choice(["F32", "I32", "U8", "BOOL", "F8_E8M0", "F4", "F6_E2M3", "C64", "u8", None])
        elif change == 3:
            entry["shape"] = random_.choice([[], [0], [1], [2], [3], [8], [11], [1, 3], [2, 1, 1], [3, 1.0], [1, "1"]])
        elif change == 4:
            entry["data_offsets"] = random_.choice(
                [[0, 8], [8, 11], [11, 11], [0, 0], [8, 8], [0, 11], [3, 11], [11, 12]]
            )
        elif change == 5:
            entry["more"] = random_.choice([1, "a", [1, [2]], {"b": {}}])
        else:
            header["d"] = dict(entry)
    return file_of(header, PAYLOAD[: random_.choice([11, 11, 11, 8, 10])])


def test_what_the_library_takes_is_taken_and_nothing_else(bucket):
    random_, store, taken = random.Random(12), open_store(bucket), 0
    for _ in range(1500):
        data = mutated(random_)
        store.write("m", data)
        try:
            names = sorted(name for name, _ in safetensors.deserialize(data))
        except safetensors.SafetensorError:
            with pytest.raises(CheckpointError):
                safe_open(f"{bucket}/m")
        else:
            assert safe_open(f"{bucket}/m").keys() == names, data
            taken += 1
    assert 100 < taken < 1400


@pytest.mark.parametrize("layout", ["spaces", "escapes", "order"])
def test_files_of_other_writers_are_read(bucket, layout):
    tensors = {"\u00e9\u2028\n": filled((2, 3), torch.float32), "b": filled((5,), torch.uint8)}
    data = safetensors.torch.save(tensors, {"a": "b"})
    stop = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:stop])
    text = {
        "spaces": json.dumps(header, indent=3).encode() + b" \n\t",
        "escapes": json.dumps(header, ensure_ascii=True).encode(),
        "order": json.dumps(dict(reversed(header.items()))).encode(),
    }[layout]
    open_store(bucket).write("m", file_of(text, data[stop:]))
    assert same_tensors(load_file(f"{bucket}/m"), tensors)


def test_a_header_that_no_reader_takes_is_not_written(bucket, monkeypatch):
    monkeypatch.setattr("torchbucket.safetensors.header.HEADER_BYTES_LIMIT", 100)
    with pytest.raises(ValueError, match="the most that any reader takes"):
        save_file({f"t{number}": torch.tensor([number]) for number in range(3)}, f"{bucket}/m")
