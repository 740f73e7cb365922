"""What a program does with checkpoints, for faults to strike, and what must be true afterwards."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from testbed_faults import impatient_config

from buckettestbed import RunningTestbed
from torchbucket import Checkpoint, NotFoundError, StoreConfig
from torchbucket.store import Store, open_store

__all__ = ["ACTIONS", "BUCKET", "KEY", "Action", "undisturbed"]

BUCKET = "runs"
KEY = "run/last.pt"

State = dict[str, torch.Tensor]

# A small one goes in one request; a large one in three parts, and is read in as many.
OLD: Mapping[bool, State] = {
    large: {"weight": torch.full((6 << 18 if large else 300,), 1.0), "step": torch.tensor(1)} for large in (False, True)
}
NEW: Mapping[bool, State] = {
    large: {"weight": torch.arange(6 << 19 if large else 400, dtype=torch.float32), "step": torch.tensor(2)}
    for large in (False, True)
}


def undisturbed(testbed: RunningTestbed) -> Store:
    """A store that prepares and inspects, while no fault is set."""
    return open_store(f"s3://{BUCKET}", StoreConfig(endpoint=testbed.s3_endpoint, region="us-east-1", anonymous=True))


def _bytes(state: State, *, legacy: bool) -> bytes:
    file = io.BytesIO()
    torch.save(state, file, _use_new_zipfile_serialization=not legacy)
    return file.getvalue()


def _is(found: Any, wanted: State) -> bool:
    return list(found) == list(wanted) and all(torch.equal(found[name], wanted[name]) for name in wanted)


def _save(checkpoint: Checkpoint, state: State) -> None:
    checkpoint.save(state, KEY)


def _save_async(checkpoint: Checkpoint, state: State) -> None:
    checkpoint.save_async(state, KEY).result()


def _save_by_torch(checkpoint: Checkpoint, state: State) -> None:
    checkpoint.save(state, KEY, pickle_module=SimpleNamespace(**vars(pickle)))  # another one is torch's affair


def _load(checkpoint: Checkpoint, _state: State) -> State:
    loaded: State = checkpoint.load(KEY)
    return loaded


def _remove(checkpoint: Checkpoint, _state: State) -> None:
    checkpoint.store.delete(KEY)


@dataclass(frozen=True, kw_only=True)
class Action:
    """One thing that a program does with a checkpoint that is there already.

    Args:
        scheme: of the address.
        act: does it, and returns what it loaded, if it loads.
        large: whether the states are.
        legacy: whether the one that is there is of torch's older format.
    """

    scheme: str
    act: Callable[[Checkpoint, State], State | None]
    large: bool = False
    legacy: bool = False

    @property
    def removes(self) -> bool:
        """Whether the checkpoint is to be gone afterwards."""
        return self.act is _remove

    def prepare(self, store: Store) -> None:
        """Write the checkpoint that is there."""
        store.write(KEY, _bytes(OLD[self.large], legacy=self.legacy))

    def open(self, testbed: RunningTestbed, *, deadline_s: float) -> Checkpoint:
        """The checkpoints, by a store that gives up soon."""
        endpoint = testbed.s3_endpoint if self.scheme == "s3" else testbed.gcs_endpoint
        return Checkpoint(f"{self.scheme}://{BUCKET}", config=impatient_config(endpoint, deadline_s=deadline_s))

    def run(self, checkpoint: Checkpoint) -> None:
        """Do it; raise AssertionError where it ended as if all was well and was not."""
        found = self.act(checkpoint, NEW[self.large])
        assert found is None or _is(found, OLD[self.large]), "what was loaded is wrong"

    def inspect(self, store: Store, *, done: bool) -> None:
        """Raise AssertionError unless the bucket holds what it must after the action was done, or had failed."""
        try:
            held = torch.load(io.BytesIO(store.read(KEY).data))
        except NotFoundError:
            assert self.removes, "the checkpoint is gone"
            return
        if self.act is _load or (self.removes and not done):
            assert _is(held, OLD[self.large]), "the checkpoint was changed"
        elif self.removes:
            raise AssertionError("the checkpoint was not removed")
        else:
            kept = not done and _is(held, OLD[self.large])
            assert kept or _is(held, NEW[self.large]), "the checkpoint is neither the old nor the new one"


ACTIONS: Mapping[str, Action] = {
    "save (S3)": Action(scheme="s3", act=_save),
    "save in parts (S3)": Action(scheme="s3", act=_save, large=True),
    "save by torch (S3)": Action(scheme="s3", act=_save_by_torch, large=True),
    "async save (S3)": Action(scheme="s3", act=_save_async, large=True),
    "load (S3)": Action(scheme="s3", act=_load),
    "load in parts (S3)": Action(scheme="s3", act=_load, large=True),
    "load, older format (S3)": Action(scheme="s3", act=_load, large=True, legacy=True),
    "remove (S3)": Action(scheme="s3", act=_remove),
    "save (GCS)": Action(scheme="gs", act=_save),
    "save in parts (GCS)": Action(scheme="gs", act=_save, large=True),
    "async save (GCS)": Action(scheme="gs", act=_save_async, large=True),
    "load (GCS)": Action(scheme="gs", act=_load),
    "load in parts (GCS)": Action(scheme="gs", act=_load, large=True),
    "remove (GCS)": Action(scheme="gs", act=_remove),
}
