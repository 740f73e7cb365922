"""`python -m bucketbench.testbed`: the testbed's command line without the rest of the harness."""

import sys

from bucketbench.testbed.command import main

if __name__ == "__main__":
    sys.exit(main())
