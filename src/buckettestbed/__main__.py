"""`python -m buckettestbed`: the testbed's command line without the rest of the harness."""

import sys

from buckettestbed.command import main

if __name__ == "__main__":
    sys.exit(main())
