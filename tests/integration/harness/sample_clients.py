"""Loaders as a user might write them, good and bad. They read the local copy, so that no network takes part.

This file is copied into a temporary folder and found there by ``--config-dir``.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from torch.utils.data import Dataset, IterableDataset, get_worker_info


class _Files(Dataset):
    def __init__(self, directory):
        self.paths = sorted(Path(directory).iterdir())

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.paths[index].name, self.paths[index].read_bytes()


class Good:
    needs_local_copy = True
    files = _Files

    def dataset(self, target):
        return self.files(target.local_directory)


class FailsOnRankOne(Good):
    def dataset(self, target):
        if os.environ.get("RANK") == "1":
            raise RuntimeError("rank 1 has no data")
        return super().dataset(target)


class NotForkSafe(Good):
    fork_safe = False


class _Stream(IterableDataset):
    def __init__(self, directory):
        self.files = _Files(directory)

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for index in range(first, len(self.files), step):
            yield self.files[index]


class GoodIterable(Good):
    files = _Stream


class RaisesWhenBuilt:
    def __init__(self):
        raise RuntimeError("cannot be built\nfor this reason")


class _RaisesMidway(_Files):
    def __getitem__(self, index):
        if index == 13:
            raise OSError("the connection was lost")
        return super().__getitem__(index)


class RaisesMidway(Good):
    files = _RaisesMidway


class _StreamBreaks(_Stream):
    def __iter__(self):
        for number, sample in enumerate(super().__iter__()):
            if number == 7:
                raise OSError("the stream broke")
            yield sample


class StreamBreaks(Good):
    files = _StreamBreaks


class _WrongBytes(_Files):
    def __getitem__(self, index):
        key, data = super().__getitem__(index)
        return key, data[:-1] + b"\x00" if index == 11 else data


class WrongBytes(Good):
    files = _WrongBytes


class _Short(_Files):
    def __len__(self):
        return super().__len__() - 2


class Missing(Good):
    files = _Short


class _Twice(_Stream):
    def __iter__(self):
        for sample in super().__iter__():
            yield sample
            if sample[0] == self.files.paths[3].name:
                yield sample


class Duplicated(Good):
    files = _Twice


class _WorkerExits(_Files):
    def __getitem__(self, index):
        if index == 13:
            os._exit(3)
        return super().__getitem__(index)


class WorkerExits(Good):
    files = _WorkerExits


class _Stuck(_Files):
    def __getitem__(self, index):
        if index == 13:
            time.sleep(600)
        return super().__getitem__(index)


class Hangs(Good):
    """A worker hangs, and a process in a session of its own would stay; the log has a secret by then."""

    files = _Stuck

    def dataset(self, target):
        print(f"debug: authorised with {os.environ['SERVICE_TOKEN']}", flush=True)
        marker = os.environ["BUCKETBENCH_TEST_MARKER"]
        command = [sys.executable, "-c", "import time; time.sleep(600)", marker]
        subprocess.Popen(command, start_new_session=True)
        return super().dataset(target)
