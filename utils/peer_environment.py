#!/usr/bin/env python3
"""Make or refresh the environment of a client or server that clashes with the repository's; standard library only.

`peer_environment.py dataflux` makes `.venv-dataflux` from `constraints-dataflux.txt`: the client's packages, what
bucketbench's measured process needs, and bucketbench itself; a server's environment has its packages alone. It does
nothing when the environment already matches that file, and two calls at once are safe.

In a folder that ``bucketbench init`` made it does the same, with the bucketbench that this file pins.
"""

import argparse
import sys
from pathlib import Path

from environment import ROOT, TORCH, Environment, Step

PEERS = {
    # Its code imports names that google-cloud-storage 3 no longer has.
    "dataflux": ("gcs-torch-dataflux", "google-cloud-storage<3"),
    # Its gRPC tools need protobuf 6, and its extension of DuckDB is for one version of that.
    "bqemulator": ("bqemulator", "duckdb", "duckdb-extensions", "duckdb-extension-spatial", "numpy"),
}
"""What each environment is for: the packages asked of pip; constraints-NAME.txt pins them and all that they need."""

SERVERS = frozenset({"bqemulator"})
"""Those that serve tests, and measure nothing."""

# What bucketbench.worker and a data set scenario import, beside torch; pillow for model=decode.
WORKER = Step(says="what a measured process needs", arguments=("hydra-core", "numpy", "pillow", "psutil", "xxhash"))
PROJECT = ROOT / "pyproject.toml"
SOURCE = ("--editable", ".") if PROJECT.is_file() else ("torchbucket",)
# Without its dependencies: those of the clients under comparison are what clashes.
BUCKETBENCH = Step(says="bucketbench", arguments=("--no-deps", *SOURCE))


def main() -> int:
    parser = argparse.ArgumentParser(prog="setup_peer_env.sh", description=__doc__, allow_abbrev=False)
    parser.add_argument("peer", choices=sorted(PEERS))
    peer = parser.parse_args().peer
    constraints = ROOT / f"constraints-{peer}.txt"
    packages = Step(says=" and ".join(PEERS[peer]), arguments=PEERS[peer])
    return Environment(
        folder=ROOT / f".venv-{peer}",
        constraints=constraints,
        inputs=(constraints, Path(__file__), *([PROJECT] if PROJECT.is_file() else [])),
        steps=(packages,) if peer in SERVERS else (TORCH, packages, WORKER, BUCKETBENCH),
    ).make()


if __name__ == "__main__":
    sys.exit(main())
