#!/usr/bin/env bash
# Run the tests. Every argument goes to pytest: ./utils/run_tests.sh tests/unit -k uri
source "$(dirname "$0")/environment.sh"
exec .venv/bin/python -m pytest "$@"
