"""One rank of a job, as the variables of torchrun tell it which one: ``measured_rank_program.py JOB_DIRECTORY``."""

from __future__ import annotations

import os
import sys

from bucketbench.worker import main

status = main(sys.argv[1:])
sys.stdout.flush()
sys.stderr.flush()
os._exit(status)  # as a measured process ends
