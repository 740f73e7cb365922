#!/usr/bin/env python3
"""Make or refresh the environment of a client whose packages clash with the repository's; standard library only.

`peer_environment.py dataflux` makes `.venv-dataflux` from `constraints-dataflux.txt`: the client's packages, what
bucketbench's measured process needs, and bucketbench itself. It does nothing when the environment already matches that
file, and two calls at once are safe.
"""

import argparse
import sys
from pathlib import Path

from environment import ROOT, TORCH, Environment, Step

PEERS = {
    # Its code imports names that google-cloud-storage 3 no longer has.
    "dataflux": ("gcs-torch-dataflux", "google-cloud-storage<3"),
}
"""What each environment is for: the packages asked of pip; constraints-NAME.txt pins them and all that they need."""

# What bucketbench.worker and a data set scenario import, beside torch; pillow for model=decode.
WORKER = Step(says="what a measured process needs", arguments=("hydra-core", "numpy", "pillow", "psutil", "xxhash"))
# Without its dependencies: those of the clients under comparison are what clashes.
BUCKETBENCH = Step(says="bucketbench", arguments=("--no-deps", "--editable", "."))


def main() -> int:
    parser = argparse.ArgumentParser(prog="setup_peer_env.sh", description=__doc__, allow_abbrev=False)
    parser.add_argument("peer", choices=sorted(PEERS))
    peer = parser.parse_args().peer
    constraints = ROOT / f"constraints-{peer}.txt"
    return Environment(
        folder=ROOT / f".venv-{peer}",
        constraints=constraints,
        inputs=(constraints, Path(__file__), ROOT / "pyproject.toml"),
        steps=(TORCH, Step(says=" and ".join(PEERS[peer]), arguments=PEERS[peer]), WORKER, BUCKETBENCH),
    ).make()


if __name__ == "__main__":
    sys.exit(main())
