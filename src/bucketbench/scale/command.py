"""``bucketbench scale``: what a scenario asks of a service with many ranks, how long that takes and what it costs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bucketbench.errors import BucketbenchError, ResultsError
from bucketbench.scenarios import scenario_names

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Args:
        argv: the arguments after ``bucketbench scale``.

    Returns:
        0; 2 for a mistake in what was asked for, with the reason on standard error.
    """
    parser = _parser()
    try:
        arguments, overrides = parser.parse_known_args(list(argv))
        if unknown := [text for text in overrides if text.startswith("-")]:
            parser.error(f"unknown option {unknown[0]}; overrides are KEY=VALUE")
    except SystemExit as ended:  # argparse has told why
        return ended.code if isinstance(ended.code, int) else 2
    # Hydra, and for checkpoints torch, are imported for a simulation alone, not for --help.
    from bucketbench.scale.composition import composed
    from bucketbench.scale.drawing import draw
    from bucketbench.scale.simulation import simulated
    from bucketbench.scale.tables import json_outcomes, render_markdown

    try:
        of = composed(arguments.scenario, overrides)
        outcomes = simulated(of)
        if arguments.svg is not None:
            _write(arguments.svg, draw(outcomes, of.prices.currency))
        sys.stdout.write(
            json.dumps(json_outcomes(outcomes), indent=2) + "\n" if arguments.json else render_markdown(of, outcomes)
        )
    except BucketbenchError as error:
        sys.stderr.write(f"bucketbench scale: {error}\n")
        return 2
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultsError(f"{path} cannot be written: {error}; give another path to --svg") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bucketbench scale",
        usage="bucketbench scale SCENARIO [OVERRIDE...] [--svg FILE] [--json]",
        description="Work out requests, bytes, time, memory and cost of a scenario with many ranks, without a request.",
        epilog="An override is KEY=VALUE as for bucketbench run, and ranks=10,100,1000; the groups scale, service and "
        "prices (conf/scale, conf/service, conf/prices) say on what hosts, within which limits and at what price. "
        "docs/scale.md explains the arithmetic.",
        allow_abbrev=False,
    )
    parser.add_argument("scenario", metavar="SCENARIO", help=f"one of {', '.join(scenario_names())}")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw it there, too")
    parser.add_argument("--json", action="store_true", help="print every figure, unrounded, as a JSON list")
    return parser
