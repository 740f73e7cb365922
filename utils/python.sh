# shellcheck shell=bash
# Sourced: sets `python` to an interpreter that is new enough, or ends with status 2.
for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "${python:-}" ]; then
    echo "environment: Python 3.11 or newer is needed and none was found on PATH" >&2
    exit 2
fi
