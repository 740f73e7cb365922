# shellcheck shell=bash
# Sourced by the run scripts: goes to the repository's root and makes `.venv` what constraints.txt says.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source utils/python.sh
"$python" utils/environment.py
