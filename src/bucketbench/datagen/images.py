"""Real, decodable images of an exact size in bytes.

An image is a smooth random picture with noise on it. More noise makes a larger file, so the noise is raised until the
file is just below the size asked for, and the rest, a few per cent, is filled up with what every decoder skips:
comment segments in a JPEG, a private ancillary chunk in a PNG. So the size is exact, the file costs as much to decode
as any other of its size and kind, and content that compresses is no shortcut for anything on the way.

*Source:* ITU-T T.81 (JPEG), B.1.1.2 (fill bytes) and B.2.4.5 (comment); PNG specification, third edition, 5.3 and 14.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from bucketbench.datagen.errors import DatagenError
from bucketbench.datagen.randomness import Purpose, SampleRandom
from bucketbench.datagen.spec import DatasetSpec, ImageFormat
from bucketbench.units import format_bytes

__all__ = ["PICTURE_SIDE", "TYPICAL_BYTES_PER_PIXEL", "check_sizes", "encode_image", "picture_of", "resolution_of"]

# Source: ImageNet's training images average 110 kB at 500 x 375, 0.59 bytes a pixel; photographs in PNG take 1.5-2.5.
TYPICAL_BYTES_PER_PIXEL: Final[Mapping[ImageFormat, float]] = {"jpeg": 0.55, "png": 2.0}

PICTURE_SIDE: Final = 8
"""Width and height of what an image is made from, and is told by when it has been decoded."""

# Source: Pillow's `Image.MAX_IMAGE_PIXELS`, of which it refuses to open more than twice as many.
_MOST_PIXELS: Final = 2 * ((1 << 30) // 4 // 3)

_MAX_NOISE: Final = 255
_STRIP_ROWS: Final = 512  # mixed at once, so that only what is kept of a large image is in memory as a whole
_ROUNDS: Final = 10
_GOOD_ENOUGH: Final = 0.97  # content of the share of the size at which the search for more noise ends
_CALIBRATION_SIDE: Final = 256
_CALIBRATION_NOISE: Final = (0, 4, 8, 16, 32, 48, 64, 96, 128, 192, 255)
_JPEG_PIECE_BYTES: Final = 65_535  # the largest length a segment can state, itself included
_PNG_CHUNK_BYTES: Final = 12  # length, type and checksum of an empty chunk


@dataclass(frozen=True, kw_only=True, slots=True)
class _Encoding:
    """A way to encode: format and, for JPEG, quality (1 to 100) and chroma subsampling (0 is 4:4:4, 2 is 4:2:0)."""

    image_format: ImageFormat
    quality: int = 0
    subsampling: int = 0


# In the order in which they are tried: 90 is what photographs are usually stored at, the others reach further out.
_ENCODINGS: Final[Mapping[ImageFormat, tuple[_Encoding, ...]]] = {
    "jpeg": tuple(
        _Encoding(image_format="jpeg", quality=quality, subsampling=subsampling)
        for quality, subsampling in ((90, 2), (95, 0), (100, 0), (75, 2), (50, 2), (25, 2), (10, 2))
    ),
    "png": (_Encoding(image_format="png"),),
}


def resolution_of(spec: DatasetSpec, size_bytes: int) -> tuple[int, int]:
    """Width and height in pixels of an image whose file has ``size_bytes``."""
    if spec.resolution is not None:
        return spec.resolution
    side = max(16, round(math.sqrt(size_bytes / TYPICAL_BYTES_PER_PIXEL[spec.image_format])))
    return side, side


def check_sizes(spec: DatasetSpec) -> None:
    """Raise ``DatagenError`` where an image of the spec's resolution cannot have the spec's sizes."""
    for size_bytes in {spec.smallest_size_bytes, spec.largest_size_bytes}:
        encode_image(spec, index=0, size_bytes=size_bytes)


def encode_image(spec: DatasetSpec, *, index: int, size_bytes: int) -> bytes:
    """Make the image file of sample ``index``, exactly ``size_bytes`` long.

    Raises:
        DatagenError: no image of that resolution is so small or so large; the message has the nearest size. Or it has
            more pixels than decoders open.
    """
    width, height = resolution_of(spec, size_bytes)
    if width * height > _MOST_PIXELS:
        raise DatagenError(
            f"cannot make a {width}x{height} {spec.image_format} of {format_bytes(size_bytes)}: decoders open no image "
            f"of more than {_MOST_PIXELS:,} pixels; ask for a smaller size or resolution, or for image_format=bytes, "
            "which is of any size"
        )
    picture, noise = _layers(SampleRandom(seed=spec.seed, index=index, purpose=Purpose.IMAGE), width, height)
    reserve = _PNG_CHUNK_BYTES if spec.image_format == "png" else 0
    encoding, strength = _first_guess(spec.image_format, size_bytes / (width * height))
    best = b""
    best_strength, too_strong = -1, _MAX_NOISE + 1
    for _ in range(_ROUNDS):
        content = _encode(_mix(picture, noise, strength), encoding)
        if len(content) == size_bytes:
            return content
        if len(content) + reserve <= size_bytes:
            if strength > best_strength:
                best, best_strength = content, strength
            if len(content) >= _GOOD_ENOUGH * size_bytes:
                break
        else:
            too_strong = min(too_strong, strength)
        if too_strong - best_strength <= 1:
            break
        strength = _next_guess(encoding, len(content), strength, size_bytes, best_strength, too_strong)
    if not best:
        best = _encode(_mix(picture, noise, 0), encoding)
        if len(best) + reserve > size_bytes:
            limit = f"takes at least {format_bytes(len(best) + reserve)}"
            raise DatagenError(_misfit(spec, size_bytes, (width, height), limit))
    if best_strength == _MAX_NOISE and len(best) < _GOOD_ENOUGH * size_bytes:
        raise DatagenError(_misfit(spec, size_bytes, (width, height), f"takes at most {format_bytes(len(best))}"))
    return _padded(best, size_bytes, spec.image_format)


def _misfit(spec: DatasetSpec, size_bytes: int, resolution: tuple[int, int], limit: str) -> str:
    width, height = resolution
    return (
        f"cannot make a {width}x{height} {spec.image_format} of {format_bytes(size_bytes)}: such an image {limit}; "
        f"ask for another size or resolution, or leave the resolution out to have one chosen for each size"
    )


def _layers(random: SampleRandom, width: int, height: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int8]]:
    """A smooth picture, values 64 to 191, and noise, values -128 to 127; both of shape (height, width, 3)."""
    coarse = _coarse(random)
    smooth = Image.fromarray(coarse).resize((width, height), Image.Resampling.BILINEAR)
    noise = random.octets(height * width * 3).view(np.int8).reshape(height, width, 3)
    return np.asarray(smooth), noise


def _coarse(random: SampleRandom) -> npt.NDArray[np.uint8]:
    """What a picture is made from, of shape (8, 8, 3), values 64 to 191."""
    side = PICTURE_SIDE
    return (random.octets(side * side * 3) // 2 + 64).reshape(side, side, 3)


def picture_of(spec: DatasetSpec, index: int) -> npt.NDArray[np.uint8]:
    """What image ``index`` shows, scaled down: the means of its 8 x 8 equal parts, of shape (8, 8, 3).

    It takes no encoding: it is what an image of any size and quality has in common with all others of its number.
    """
    coarse = _coarse(SampleRandom(seed=spec.seed, index=index, purpose=Purpose.IMAGE))
    side = 8 * PICTURE_SIDE
    smooth = Image.fromarray(coarse).resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(smooth.resize((PICTURE_SIDE, PICTURE_SIDE), Image.Resampling.BOX))


def _mix(picture: npt.NDArray[np.uint8], noise: npt.NDArray[np.int8], strength: int) -> Image.Image:
    height, width, _ = picture.shape
    mixed = Image.new("RGB", (width, height))
    for top in range(0, height, _STRIP_ROWS):
        rows = slice(top, top + _STRIP_ROWS)
        # 128 * 255 fits 16 bits; after the shift the noise is within 64 of zero, so that no sum leaves 0 to 255.
        strip = picture[rows] + ((noise[rows] * np.int16(strength)) >> 9)
        mixed.paste(Image.fromarray(strip.astype(np.uint8)), (0, top))
    return mixed


def _encode(image: Image.Image, encoding: _Encoding) -> bytes:
    file = io.BytesIO()
    if encoding.image_format == "jpeg":
        image.save(file, "JPEG", quality=encoding.quality, subsampling=encoding.subsampling)
    else:
        image.save(file, "PNG", compress_level=1)
    return file.getvalue()


@lru_cache(maxsize=32)
def _calibration(encoding: _Encoding) -> tuple[float, ...]:
    """Bytes a pixel at each strength of ``_CALIBRATION_NOISE``, of one fixed image: the shape of the curve."""
    side = _CALIBRATION_SIDE
    picture, noise = _layers(SampleRandom(seed=0, index=0, purpose=Purpose.IMAGE), side, side)
    sizes = [len(_encode(_mix(picture, noise, strength), encoding)) / side**2 for strength in _CALIBRATION_NOISE]
    return tuple(float(size) for size in np.maximum.accumulate(sizes))


def _first_guess(image_format: ImageFormat, bytes_per_pixel: float) -> tuple[_Encoding, int]:
    """The first encoding whose range holds a density, and the strength at which it is reached."""
    encodings = _ENCODINGS[image_format]
    for encoding in encodings:
        curve = _calibration(encoding)
        if curve[0] * 1.1 < bytes_per_pixel < curve[-1] * 0.95:
            return encoding, _strength_at(curve, bytes_per_pixel * (1 + _GOOD_ENOUGH) / 2)
    # Out of every range, or in the gap at an end of one: take the encoding that reaches furthest to that side.
    reach = max(encodings, key=lambda encoding: _calibration(encoding)[-1])
    if bytes_per_pixel >= _calibration(reach)[-1] * 0.95:
        return reach, _MAX_NOISE
    return min(encodings, key=lambda encoding: _calibration(encoding)[0]), 0


def _strength_at(curve: tuple[float, ...], bytes_per_pixel: float) -> int:
    return round(float(np.interp(bytes_per_pixel, curve, _CALIBRATION_NOISE)))


def _next_guess(
    encoding: _Encoding, content_bytes: int, strength: int, size_bytes: int, best_strength: int, too_strong: int
) -> int:
    """Move along the calibrated curve by the ratio still missing, strictly between what was found to fit and not to."""
    curve = _calibration(encoding)
    here = float(np.interp(strength, _CALIBRATION_NOISE, curve))
    aim = size_bytes * (1 + _GOOD_ENOUGH) / 2
    guess = _strength_at(curve, here * aim / content_bytes)
    return min(max(guess, best_strength + 1), too_strong - 1)


def _padded(content: bytes, size_bytes: int, image_format: ImageFormat) -> bytes:
    missing = size_bytes - len(content)
    if image_format == "png":
        # Lower-case first and second letters make the chunk ancillary and private, a lower-case last one safe to copy.
        body = bytes(missing - _PNG_CHUNK_BYTES)
        kind = b"bbPd"
        chunk = struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        end = content.rindex(b"IEND") - 4
        return content[:end] + chunk + content[end:]
    return content[:2] + _jpeg_filler(missing) + content[2:]


def _jpeg_filler(size_bytes: int) -> bytes:
    """Comment segments and, for what no segment is small enough for, fill bytes, to go before a marker."""
    pieces: list[bytes] = []
    while size_bytes >= 4:
        piece_bytes = min(size_bytes, 2 + _JPEG_PIECE_BYTES)
        pieces.append(b"\xff\xfe" + struct.pack(">H", piece_bytes - 2) + bytes(piece_bytes - 4))
        size_bytes -= piece_bytes
    return b"".join(pieces) + b"\xff" * size_bytes
