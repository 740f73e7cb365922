"""Trains from tar shards, stops and goes on as a user's script would, with real workers, and checks every sample.

Usage: python tar_program.py URI ENDPOINT START_METHOD
"""

from __future__ import annotations

import json
import pickle
import sys

from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from torchbucket import StoreConfig, TarDataset, merge_states

SETTINGS = {"shuffle": True, "shuffle_buffer": 5, "seed": 3}


def number_of(sample) -> int:
    number = int(sample.key)
    assert sample["txt"] == str(number).encode()
    assert sample.view("bin") == bytes([number % 256]) * (number * 50)
    return number


def dataset(uri: str, config: StoreConfig, **settings) -> TarDataset[int]:
    return TarDataset.from_prefix(uri, config=config, transform=number_of, **SETTINGS, **settings)


def loader(source, workers: int, method: str, kind=StatefulDataLoader):
    return kind(
        source, batch_size=4, num_workers=workers, collate_fn=list, multiprocessing_context=method if workers else None
    )


def samples(batches) -> list[int]:
    return [sample for batch in batches for sample in batch]


def check_resumption(uri: str, config: StoreConfig, workers: int, stops: list[int]) -> None:
    """Stopped after some batches, a loader of as many workers goes on with the very next one."""
    epochs = loader(dataset(uri, config), workers, "fork")
    first, second = list(epochs), list(epochs)
    everything = sorted(samples(first))
    assert everything == list(range(len(everything))), everything
    assert sorted(samples(second)) == everything
    assert first != second
    for stop in stops:
        left = loader(dataset(uri, config), workers, "fork")
        batches = iter(left)
        assert [next(batches) for _ in range(stop)] == first[:stop]
        state = json.loads(json.dumps(left.state_dict()))
        del batches, left
        resumed = loader(dataset(uri, config), workers, "fork")
        resumed.load_state_dict(state)
        assert list(resumed) == first[stop:]
        assert list(resumed) == second


def check_other_layout(uri: str, config: StoreConfig, count: int) -> None:
    """Two ranks of two workers stop; three ranks with other workers read what is left, each sample once."""
    seen, states = [], []
    for rank in range(2):
        left = loader(dataset(uri, config, rank=rank, world_size=2), 2, "fork")
        batches = iter(left)
        seen += samples(next(batches) for _ in range(3))
        states.append(left.state_dict())
        del batches, left
    merged = json.loads(json.dumps(merge_states(states)))
    rest = []
    for rank in range(3):
        part = dataset(uri, config, rank=rank, world_size=3)
        part.load_state_dict(merged)
        rest += samples(loader(part, 1, "fork", kind=DataLoader))
    assert sorted(seen + rest) == list(range(count)), (sorted(seen), sorted(rest))


if __name__ == "__main__":
    uri, endpoint, method = sys.argv[1:]
    config = StoreConfig(endpoint=endpoint, anonymous=True, region=None if uri.startswith("gs:") else "us-east-1")
    source = dataset(uri, config)
    copy = pickle.loads(pickle.dumps(source))
    count = len(samples(loader(source, 2, method, kind=DataLoader)))
    assert source.epoch == 1
    assert len(samples(loader(copy, 0, method))) == count
    check_resumption(uri, config, 0, [7])
    check_resumption(uri, config, 2, [6])
    check_other_layout(uri, config, count)
    print(count)
