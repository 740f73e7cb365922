# shellcheck shell=bash
# Sourced by the run scripts: goes to the repository's root, makes `.venv` what constraints.txt says, and puts it first on PATH.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source utils/python.sh
"$python" utils/environment.py
PATH=$PWD/.venv/bin:$PATH
# Images of containers set it. Every process of a sweep would compile our modules anew, and every one of pytest all tests.
unset PYTHONDONTWRITEBYTECODE
