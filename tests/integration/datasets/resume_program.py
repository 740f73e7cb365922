"""Trains, stops and goes on as a user's script would, with real workers, and checks every sample itself.

Usage: python resume_program.py SCENARIO START_METHOD URI
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings

from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from torchbucket import ConfigError, IterableDataset, MapDataset, ShardedSampler, merge_states

BATCH = 2


def number_of(reader) -> int:
    return int(reader.key.rpartition("/")[2])


def stream(uri: str, **settings) -> IterableDataset[int]:
    return IterableDataset.from_prefix(uri, transform=number_of, shuffle=True, seed=5, **settings)


def loader_of(dataset, method: str, workers: int, *, kind=StatefulDataLoader, **settings):
    if workers:
        settings |= {"multiprocessing_context": method}
    return kind(dataset, batch_size=BATCH, num_workers=workers, collate_fn=list, **settings)


def samples(batches) -> list[int]:
    return [sample for batch in batches for sample in batch]


def take(loader, count: int) -> list:
    batches = iter(loader)
    return [next(batches) for _ in range(count)]


def resumed(method: str, uri: str, workers: int, stops: list[int], **settings) -> None:
    """Stopped after any number of batches, a loader goes on with the very next one, then with the next epochs."""
    dataset = stream(uri)
    loader = loader_of(dataset, method, workers, **settings)
    epochs = [list(loader) for _ in range(3)]
    everything = sorted(samples(epochs[0]))
    assert all(sorted(samples(epoch)) == everything for epoch in epochs), epochs
    assert epochs[0] != epochs[1] != epochs[2], epochs
    assert dataset.epoch == 3, dataset.epoch
    for stop in [*stops, len(epochs[0]) - 1, len(epochs[0])]:
        loader = loader_of(stream(uri), method, workers, **settings)
        assert take(loader, stop) == epochs[0][:stop]
        state = json.loads(json.dumps(loader.state_dict()))
        del loader
        loader = loader_of(stream(uri), method, workers, **settings)
        loader.load_state_dict(state)
        assert list(loader) == epochs[0][stop:], (stop, settings)
        assert list(loader) == epochs[1], (stop, settings)
    loader = loader_of(stream(uri), method, workers, **settings)
    list(loader)
    finished = loader.state_dict()
    loader = loader_of(stream(uri), method, workers, **settings)
    loader.load_state_dict(finished)
    assert list(loader) == epochs[1], settings


def every_way(method: str, uri: str) -> None:
    """Without workers, with some, that persist or not, with a state at each batch or at some only."""
    resumed(method, uri, 0, [0, 5])
    resumed(method, uri, 2, [0, 1, 5])
    resumed(method, uri, 3, [4], snapshot_every_n_steps=3, prefetch_factor=4)
    resumed(method, uri, 3, [7], persistent_workers=True, pin_memory=True)


def one_way(method: str, uri: str) -> None:
    """What differs for workers that are sent their data set: shared memory reaches them another way."""
    dataset = stream(uri)
    loader = loader_of(dataset, method, 2, persistent_workers=True)
    first = list(loader)
    dataset.set_epoch(7)
    eighth = list(loader)
    assert dataset.epoch == 8
    fresh = stream(uri)
    fresh.set_epoch(7)
    fresh_loader = loader_of(fresh, method, 2, persistent_workers=True)
    begun = take(fresh_loader, 5)
    assert begun == eighth[:5]
    assert first != eighth
    state = merge_states(fresh_loader.state_dict())
    again = stream(uri)
    again.load_state_dict(state)
    rest = list(loader_of(again, method, 1))
    assert sorted(samples(begun) + samples(rest)) == sorted(samples(first))
    assert again.epoch == 8


def other_topology(method: str, uri: str) -> None:
    """Two ranks of two workers stop; three ranks with other loaders go on, stop, and one without workers ends it."""
    whole = sorted(stream(uri))
    states, seen = [], []
    for rank in range(2):
        loader = loader_of(stream(uri, rank=rank, world_size=2), method, 2, snapshot_every_n_steps=2)
        seen += samples(take(loader, 3 + rank))
        states.append(loader.state_dict())
    merged = merge_states(states, batch_size=BATCH)
    states = []
    for rank in range(3):
        dataset = stream(uri, rank=rank, world_size=3)
        dataset.load_state_dict(merged)
        loader = loader_of(dataset, method, rank)
        seen += samples(take(loader, 1))
        states.append(loader.state_dict())
    dataset = stream(uri)
    dataset.load_state_dict(merge_states(states))
    loader = loader_of(dataset, method, 2, kind=DataLoader)
    seen += samples(loader)
    assert sorted(seen) == whole, sorted(seen)
    assert sorted(samples(loader)) == whole


def refused(method: str, uri: str) -> None:
    """A loader with other workers, or another rank, says what to do instead of reading something else."""
    loader = loader_of(stream(uri), method, 3)
    take(loader, 2)
    state = loader.state_dict()
    for workers, settings in ((2, {}), (4, {}), (3, {"rank": 1, "world_size": 2})):
        other = loader_of(stream(uri, **settings), method, workers)
        other.load_state_dict(state)
        try:
            list(other)
        except ConfigError as error:
            assert "torchbucket.merge_states" in str(error), error
            traceback.clear_frames(error.__traceback__)  # else the garbage collector waits 5 s for each worker
        else:
            raise AssertionError(f"{workers} workers with {settings} took the state of 3")


def plain(method: str, uri: str) -> None:
    """A plain DataLoader keeps no state: the data set says so, and computes it from the batches."""
    dataset = stream(uri)
    loader = loader_of(dataset, method, 3, kind=DataLoader)
    batches = iter(loader)
    seen = [next(batches) for _ in range(5)]
    try:
        dataset.state_dict()
    except ConfigError as error:
        assert "state_after" in str(error), error
    else:
        raise AssertionError("the parent cannot know what was consumed")
    state = dataset.state_after(epoch=0, batches=5, batch_size=BATCH, num_workers=3)
    seen += batches
    again = stream(uri)
    again.load_state_dict(state)
    rest = list(loader_of(again, method, 2, kind=DataLoader))
    assert sorted(samples(seen[:5]) + samples(rest)) == sorted(samples(seen))
    assert again.epoch == 1


def reseeded(method: str, uri: str) -> None:
    """A program that seeds before each epoch gives the workers of every pass the same seed; each is still one epoch."""
    import torch

    dataset = stream(uri)
    epochs = []
    for _ in range(3):
        torch.manual_seed(0)
        epochs.append(samples(loader_of(dataset, method, 3, kind=DataLoader)))
    assert dataset.epoch == 3
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert len({tuple(sorted(epoch)) for epoch in epochs}) == 1


def side_by_side(method: str, uri: str) -> None:
    """Two loaders of one data set at once: each pass is whole, whichever comes first."""
    dataset = stream(uri)
    loaders = [loader_of(dataset, method, 2, kind=DataLoader) for _ in range(2)]
    passes = list(zip(*loaders, strict=True))
    for one in zip(*passes, strict=True):
        assert sorted(samples(one)) == sorted(stream(uri))


def sampler(method: str, uri: str) -> None:
    """A map-style data set with the sampler: the next batch, then the next epoch; other ranks go on with the rest."""
    dataset = MapDataset.from_prefix(uri, transform=number_of)

    def loader(rank: int = 0, world_size: int = 1, state=None):
        chosen = ShardedSampler(dataset, rank=rank, world_size=world_size, even=False)
        if state is not None:
            chosen.load_state_dict(state)
        return loader_of(dataset, method, 2, sampler=chosen)

    reference = loader()
    epochs = [list(reference), list(reference)]
    begun = loader()
    assert take(begun, 3) == epochs[0][:3]
    state = begun.state_dict()
    later = loader()
    later.load_state_dict(state)
    assert [list(later), list(later)] == [epochs[0][3:], epochs[1]]
    merged = merge_states(state)
    shares = [samples(loader(rank, 2, merged)) for rank in range(2)]
    assert sorted(samples(epochs[0][:3]) + shares[0] + shares[1]) == sorted(samples(epochs[0]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    scenario, method, uri = sys.argv[1:]
    globals()[scenario](method, uri)
    print(json.dumps("done"))
