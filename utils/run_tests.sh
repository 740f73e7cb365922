#!/usr/bin/env bash
# Run the tests, a file at a time on each processor. Every argument goes to pytest: ./utils/run_tests.sh tests/unit -k uri
# Files begin in the order of tests/conftest.py, the longest first. With -n 0 they run in one process, which a debugger needs.
source "$(dirname "$0")/environment.sh"
exec .venv/bin/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder "$@"
