"""What a program does with distributed checkpoints, for faults to strike, and what must be true afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.distributed.checkpoint as dcp
from testbed_faults import impatient_config

from buckettestbed import RunningTestbed
from torchbucket import CheckpointError, StoreConfig, StoreError
from torchbucket.dcp import BucketStorageReader, BucketStorageWriter, is_complete, latest, prune
from torchbucket.store import Store, open_store

__all__ = ["ACTIONS", "BUCKET", "Action", "undisturbed"]

BUCKET = "runs"
RUN = "run"
OLD, NEWER, NEW = "step-1", "step-2", "step-3"
# More than one part, in two files.
SIZES: Mapping[str, int] = {"large": 6 << 18, "small": 300}

State: TypeAlias = dict[str, Any]


def state_of(name: str) -> State:
    """What the checkpoint of that name holds."""
    step = int(name.rpartition("-")[2])
    return {key: torch.arange(float(size)) + step for key, size in SIZES.items()} | {"step": step}


def undisturbed(testbed: RunningTestbed) -> StoreConfig:
    """Settings that prepare and inspect, while no fault is set."""
    return StoreConfig(endpoint=testbed.s3_endpoint, region="us-east-1", anonymous=True)


def store_of(config: StoreConfig) -> Store:
    """The bucket, undisturbed."""
    return open_store(f"s3://{BUCKET}", config)


def save(run: str, name: str, config: StoreConfig) -> None:
    """Save the checkpoint of that name."""
    writer = BucketStorageWriter(f"{run}/{name}", config=config, thread_count=2)
    dcp.save(state_of(name), storage_writer=writer, no_dist=True)


def load(run: str, name: str, config: StoreConfig, *, only: str | None = None) -> None:
    """Load it, or one value of it; raise AssertionError where that is not what was saved."""
    wanted = {key: value for key, value in state_of(name).items() if only in (None, key)}
    into = {key: torch.zeros_like(value) if torch.is_tensor(value) else 0 for key, value in wanted.items()}
    dcp.load(into, storage_reader=BucketStorageReader(f"{run}/{name}", config=config), no_dist=True)
    assert all(torch.equal(torch.as_tensor(into[key]), torch.as_tensor(wanted[key])) for key in wanted), "wrong bytes"


def _latest(run: str, config: StoreConfig) -> None:
    found = latest(run, config=config)
    assert found == f"{run}/{NEWER}", f"the latest is said to be {found}"


@dataclass(frozen=True, kw_only=True)
class Action:
    """One thing that a program does in a run that has two checkpoints.

    Args:
        scheme: of the address.
        act: does it, given the run's address and the settings.
        key: of which objects' requests the fault strikes; None for all.
        saves: whether a third checkpoint is there afterwards.
        over: whether it takes the place of the second one.
        removes: whether the first one is gone afterwards.
        lists: whether it goes by a listing: where that says wrongly that something is not there, it is believed.
    """

    scheme: str
    act: Callable[[str, StoreConfig], Any]
    key: str | None = None
    saves: bool = False
    over: bool = False
    removes: bool = False
    lists: bool = False

    def prepare(self, config: StoreConfig) -> None:
        """Make the run as it is before."""
        store = store_of(config)
        for info in store.list():
            store.delete(info.key)
        for name in (OLD, NEWER):
            save(f"s3://{BUCKET}/{RUN}", name, config)

    def run(self, testbed: RunningTestbed, *, deadline_s: float) -> StoreError | CheckpointError | None:
        """Do it by a store that gives up soon; return what failed."""
        endpoint = testbed.s3_endpoint if self.scheme == "s3" else testbed.gcs_endpoint
        config = impatient_config(endpoint, deadline_s=deadline_s)
        try:
            self.act(f"{self.scheme}://{BUCKET}/{RUN}", config)
        except StoreError as error:
            return error
        except dcp.CheckpointException as error:
            cause: Any = error.failures[0][0]
            if isinstance(cause, AssertionError) and "metadata read failed" in str(cause):
                return StoreError(str(cause))  # which PyTorch makes of any error in reading metadata
            if not isinstance(cause, StoreError | CheckpointError):
                raise
            return cause
        return None

    def inspect(self, config: StoreConfig, *, done: bool) -> None:
        """Raise AssertionError unless the run holds what it must after the action was done, or had failed."""
        run = f"s3://{BUCKET}/{RUN}"
        if self.over:
            # Between the old one and the new one there may be none, and never a mixture.
            assert not done or is_complete(f"{run}/{NEWER}", config=config)
            if is_complete(f"{run}/{NEWER}", config=config):
                load(run, NEWER, config)
        else:
            load(run, NEWER, config)
        if self.saves and is_complete(f"{run}/{NEW}", config=config):
            load(run, NEW, config)
        else:
            assert not (self.saves and done), "the save has returned, and there is no checkpoint"
        if not self.removes:
            load(run, OLD, config)
        elif done:
            assert not is_complete(f"{run}/{OLD}", config=config), "the checkpoint was not removed"
        elif is_complete(f"{run}/{OLD}", config=config):
            load(run, OLD, config)


def _of_both(name: str, **fields: Any) -> dict[str, Action]:
    return {f"{name} ({shown})": Action(scheme=scheme, **fields) for shown, scheme in (("S3", "s3"), ("GCS", "gs"))}


ACTIONS: Mapping[str, Action] = {
    **_of_both("save", act=lambda run, config: save(run, NEW, config), saves=True),
    **_of_both("save over", act=lambda run, config: save(run, NEWER, config), over=True),
    **_of_both("commit", act=lambda run, config: save(run, NEW, config), key="*.metadata", saves=True),
    **_of_both("load", act=lambda run, config: load(run, NEWER, config)),
    **_of_both("load one tensor", act=lambda run, config: load(run, NEWER, config, only="small")),
    **_of_both("latest", act=_latest, lists=True),
    **_of_both("prune", act=lambda run, config: prune(run, 1, config=config), removes=True, lists=True),
}
