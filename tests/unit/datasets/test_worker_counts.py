"""A loader's state of another number of workers is refused by an error that names both, and merge_states."""

from __future__ import annotations

import traceback

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

from torchbucket import ConfigError, IterableDataset, merge_states
from torchbucket.store import open_store

COUNT = 10


@pytest.fixture
def prefix(tmp_path) -> str:
    store = open_store(f"file://{tmp_path}")
    for number in range(COUNT):
        store.write(f"train/{number}", b"%d" % number)
    return f"file://{tmp_path}/train/"


def test_the_refusal_says_what_takes_the_state_up_and_that_does(prefix):
    loader = StatefulDataLoader(IterableDataset.from_prefix(prefix), batch_size=2, num_workers=2)
    batches = iter(loader)
    seen = [*next(batches), *next(batches)]
    state = loader.state_dict()
    del batches, loader
    other = StatefulDataLoader(IterableDataset.from_prefix(prefix), batch_size=2, num_workers=1)
    other.load_state_dict(state)
    refusal = r"worker 0 of 2, and cannot be taken up by .*worker 0 of 1.*merge_states"
    with pytest.raises(ConfigError, match=refusal) as caught:
        list(other)
    traceback.clear_frames(caught.tb)  # which hold the worker: the garbage collector, at last, would wait 5 s for it
    dataset = IterableDataset.from_prefix(prefix)
    dataset.load_state_dict(merge_states(state))
    rest = StatefulDataLoader(dataset, batch_size=None, num_workers=1)
    assert sorted(map(int, [*seen, *rest])) == list(range(COUNT))
