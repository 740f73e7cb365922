# shellcheck shell=bash
# Sourced by the run scripts: goes to the folder that has this one, and finds the installed bucketbench.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Where it was when the folder was made, and else wherever the shell finds it.
PATH=@installed@:$PATH
if ! command -v bucketbench >/dev/null; then
    echo "environment: no bucketbench on PATH: activate the environment that torchbucket[bench] is installed in" >&2
    exit 2
fi
