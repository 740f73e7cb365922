#!/usr/bin/env bash
# Run the tests, a file at a time on each processor and on two more, since many wait. Every argument goes to pytest:
#   ./utils/run_tests.sh tests/unit -k uri
# Files begin in the order of tests/conftest.py, the longest first. With -n 0 they run in one process, which a debugger
# needs; with --nightly those run too that are marked so.
source "$(dirname "$0")/environment.sh"
processes=$(.venv/bin/python -c 'import os; print(len(os.sched_getaffinity(0)) + 2)')
exec .venv/bin/python -m pytest --numprocesses "$processes" --dist loadfile --no-loadscope-reorder "$@"
