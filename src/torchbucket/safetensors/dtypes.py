"""The kinds of elements that safetensors knows, and torch's names for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["DTYPES", "ElementType"]


@dataclass(frozen=True, slots=True)
class ElementType:
    """One kind of element.

    Args:
        name: as a header writes it.
        bits: the size of one element.
        torch_name: the attribute of ``torch``, which older versions may lack; None where no torch has it.
        rank: the place among all kinds: a file has the tensors of a higher rank first.
        packed: how many elements torch has in one of its own: its shapes are shorter by that in the last dimension.
    """

    name: str
    bits: int
    torch_name: str | None
    rank: int
    packed: int = 1


# In the order by which files are laid out, the smallest alignment first.
# Source: safetensors 0.8, `safetensors/src/tensor.rs`, `enum Dtype`.
_TABLE: Final = (
    ("BOOL", 8, "bool"),
    ("F4", 4, "float4_e2m1fn_x2"),
    ("F6_E2M3", 6, None),
    ("F6_E3M2", 6, None),
    ("U8", 8, "uint8"),
    ("I8", 8, "int8"),
    ("F8_E5M2", 8, "float8_e5m2"),
    ("F8_E4M3", 8, "float8_e4m3fn"),
    ("F8_E8M0", 8, "float8_e8m0fnu"),
    ("F8_E4M3FNUZ", 8, "float8_e4m3fnuz"),
    ("F8_E5M2FNUZ", 8, "float8_e5m2fnuz"),
    ("I16", 16, "int16"),
    ("U16", 16, "uint16"),
    ("F16", 16, "float16"),
    ("BF16", 16, "bfloat16"),
    ("I32", 32, "int32"),
    ("U32", 32, "uint32"),
    ("F32", 32, "float32"),
    ("C64", 64, "complex64"),
    ("F64", 64, "float64"),
    ("I64", 64, "int64"),
    ("U64", 64, "uint64"),
)

DTYPES: Final = {
    name: ElementType(name, bits, torch_name, rank, packed=2 if name == "F4" else 1)
    for rank, (name, bits, torch_name) in enumerate(_TABLE)
}
"""Each kind by its name in a header."""
