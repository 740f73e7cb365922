"""Clients of the scenario in ``extension/`` that hang; the tests of sweeps copy this file beside it."""

import os
import subprocess
import sys
import time
from pathlib import Path


class Hangs:
    """Starts a process in a session of its own, and forks a worker, as a DataLoader does."""

    new_session = True

    def wait(self, target):
        marker = os.environ["BUCKETBENCH_TEST_MARKER"]
        command = [sys.executable, "-c", "import time; time.sleep(600)", marker]
        subprocess.Popen(command, start_new_session=self.new_session)
        if os.fork():
            Path(os.environ["BUCKETBENCH_TEST_HANGS"]).touch()
        time.sleep(600)


class HangsInOneSession(Hangs):
    new_session = False
