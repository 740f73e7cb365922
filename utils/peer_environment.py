#!/usr/bin/env python3
"""Make or refresh the environment of a client whose packages clash with the repository's; standard library only.

`peer_environment.py dataflux` makes `.venv-dataflux` from `constraints-dataflux.txt`. It does nothing when the
environment already matches that file, and two calls at once are safe.
"""

import argparse
import sys

from environment import ROOT, TORCH, Environment, Step

PEERS = {
    # Its code imports names that google-cloud-storage 3 no longer has.
    "dataflux": ("gcs-torch-dataflux", "google-cloud-storage<3"),
}
"""What each environment is for: the packages asked of pip; constraints-NAME.txt pins them and all that they need."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="setup_peer_env.sh", description=__doc__, allow_abbrev=False)
    parser.add_argument("peer", choices=sorted(PEERS))
    peer = parser.parse_args().peer
    constraints = ROOT / f"constraints-{peer}.txt"
    return Environment(
        folder=ROOT / f".venv-{peer}",
        constraints=constraints,
        inputs=(constraints,),
        steps=(TORCH, Step(says=" and ".join(PEERS[peer]), arguments=PEERS[peer])),
    ).make()


if __name__ == "__main__":
    sys.exit(main())
