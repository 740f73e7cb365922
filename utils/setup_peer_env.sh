#!/usr/bin/env bash
# Make the environment of a client whose packages clash with the repository's: ./utils/setup_peer_env.sh dataflux
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source utils/python.sh
exec "$python" utils/peer_environment.py "$@"
