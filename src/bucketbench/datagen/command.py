"""The commands ``bucketbench datagen`` and ``torchbucket-datagen``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar, get_args

from bucketbench.datagen.dataset import ensure_dataset
from bucketbench.datagen.errors import DatagenError
from bucketbench.datagen.progress import progress_on
from bucketbench.datagen.spec import SHARD_EXTENSIONS, DatasetSpec, ImageFormat
from bucketbench.units import format_bytes, parse_count, parse_resolution, parse_size
from torchbucket.cli_options import as_options

__all__ = ["main"]

_Value = TypeVar("_Value")

_INTERRUPTED = 130  # Source: the shells' convention, 128 plus the signal's number


def main(argv: Sequence[str] | None = None) -> int:
    """Generate a data set as the arguments say; return the exit status: 0, 2 for a user's error, 130 after Ctrl-C."""
    arguments = _parser().parse_args(argv)
    try:
        spec = DatasetSpec(
            num_samples=arguments.num_samples,
            sample_size_bytes=arguments.sample_size,
            size_distribution=arguments.size_distribution,
            size_sigma=arguments.size_sigma,
            size_spread=arguments.size_spread,
            image_format=arguments.image_format,
            resolution=arguments.resolution,
            shard_size_bytes=arguments.shard_size,
            samples_per_shard=arguments.samples_per_shard,
            extensions=tuple(arguments.extensions),
            num_classes=arguments.num_classes,
            seed=arguments.seed,
        )
        with progress_on(title=arguments.uri) as progress:
            manifest = ensure_dataset(
                arguments.uri,
                spec,
                region=arguments.region,
                endpoint=arguments.endpoint,
                path_style=arguments.path_style,
                anonymous=arguments.anonymous,
                ca_bundle=arguments.ca_bundle,
                processes=arguments.processes,
                progress=progress,
            )
    except DatagenError as error:
        sys.stderr.write(f"datagen: {as_options(str(error))}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("datagen: interrupted; what was finished is kept, the same command goes on from there\n")
        return _INTERRUPTED
    sys.stdout.write(f"{arguments.uri}: {len(manifest):,} objects, {format_bytes(manifest.size_bytes)}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="datagen",
        description="Generate a data set of decodable images, as single objects or as tar shards for WebDataset. What "
        "is there already is kept, so that an interrupted run goes on. The same seed gives the same bytes.",
        epilog="Credentials come from the environment or a profile, as for every AWS program.",
    )
    parser.add_argument("--uri", required=True, help="where to: s3://bucket/prefix or file:///directory/prefix")
    parser.add_argument(
        "-n",
        "--num-samples",
        required=True,
        type=_quantity(parse_count),
        metavar="N",
        help="images, such as 500 or 100k",
    )
    parser.add_argument(
        "--shard-size",
        type=_quantity(parse_size),
        metavar="SIZE",
        help="pack the images into tar shards of at most this size, such as 128MiB (default: an object an image)",
    )
    parser.add_argument(
        "--samples-per-shard",
        type=_quantity(parse_count),
        metavar="N",
        help="pack the images into tar shards of at most so many, such as 1k",
    )
    parser.add_argument(
        "--extensions",
        nargs="*",
        choices=SHARD_EXTENSIONS,
        default=("cls",),
        metavar="EXTENSION",
        help="members of a shard's sample beside its image: cls (the label), json (default: cls)",
    )
    parser.add_argument(
        "--sample-size",
        type=_quantity(parse_size),
        default=100 << 10,
        metavar="SIZE",
        help="mean size of an image file (default: 100KiB)",
    )
    parser.add_argument(
        "--size-distribution",
        choices=("constant", "lognormal", "uniform"),
        default="constant",
        help="(default: constant)",
    )
    parser.add_argument(
        "--size-sigma", type=float, default=0.5, metavar="SIGMA", help="sigma of lognormal sizes (default: 0.5)"
    )
    parser.add_argument(
        "--size-spread",
        type=float,
        default=0.5,
        metavar="FRACTION",
        help="uniform sizes lie within this fraction of the mean (default: 0.5)",
    )
    parser.add_argument("--image-format", choices=get_args(ImageFormat), default="jpeg", help="(default: jpeg)")
    parser.add_argument(
        "--resolution",
        type=_quantity(parse_resolution),
        metavar="WxH",
        help="pixels, such as 256x256 (default: a square that is typical for each image's size)",
    )
    parser.add_argument(
        "--num-classes", type=_quantity(parse_count), default=1000, metavar="N", help="labels of shards (default: 1000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="fixes every byte (default: 0)")
    parser.add_argument("--region", help="the bucket's region")
    parser.add_argument("--endpoint", metavar="URL", help="an S3-compatible service")
    parser.add_argument(
        "--path-style",
        action=argparse.BooleanOptionalAction,
        help="put the bucket into the URL's path (default: with --endpoint)",
    )
    parser.add_argument("--anonymous", action="store_true", help="send unsigned requests")
    parser.add_argument("--ca-bundle", metavar="FILE", help="certificates to trust (PEM)")
    parser.add_argument(
        "-j",
        "--processes",
        type=_quantity(_at_least_one),
        metavar="N",
        help="processes (default: one a core, at most 16)",
    )
    return parser


def _at_least_one(text: str) -> int:
    value = parse_count(text)
    if value < 1:
        raise ValueError(f"{text!r} is too few; expected at least 1")
    return value


def _quantity(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """A parser for argparse, which shows the message of this error and hides that of a ``ValueError``."""

    def convert(text: str) -> _Value:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


if __name__ == "__main__":
    raise SystemExit(main())
