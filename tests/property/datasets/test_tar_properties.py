"""Archives that tarfile wrote, of any members, read back: whole, resumed anywhere, and by any ranks and workers."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass
from itertools import islice
from typing import Any

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from torchbucket import TarDataset, merge_states
from torchbucket.datasets.epochs.clock import ClockedPass, EpochClock
from torchbucket.datasets.epochs.sharding import Rank, Shard
from torchbucket.datasets.tar.iterator import TarIterator
from torchbucket.datasets.tar.state import TarState
from torchbucket.store import open_store

FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)

segments = st.text(st.characters(exclude_characters="\0/.", codec="utf-8"), min_size=1, max_size=6)
extensions = st.sampled_from(("jpg", "cls", "seg.png", "é"))
sizes = st.sampled_from((0, 1, 511, 512, 513, 3000))


@dataclass(frozen=True)
class Archive:
    """The members of a shard; a member without content is a directory, a link, or a name without an extension."""

    members: tuple[tuple[str, bytes | None], ...]
    form: int

    def body(self) -> bytes:
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w", format=self.form) as writer:
            for name, content in self.members:
                info = tarfile.TarInfo(name)
                if content is None:
                    info.type, info.linkname = tarfile.SYMTYPE, "x" * 150 * (self.form != tarfile.USTAR_FORMAT)
                else:
                    info.size = len(content)
                writer.addfile(info, io.BytesIO(content or b""))
        return target.getvalue()

    def samples(self) -> list[tuple[str, dict[str, bytes]]]:
        found: list[tuple[str, dict[str, bytes]]] = []
        for name, content in self.members:
            directory, slash, base = name.rpartition("/")
            stem, dot, extension = base.partition(".")
            if content is None or not dot or (base.startswith("__") and base.endswith("__")):
                continue
            if not found or found[-1][0] != directory + slash + stem:
                found.append((directory + slash + stem, {}))
            found[-1][1][extension] = content
        return found


@st.composite
def archives(draw: Any) -> Archive:
    members: list[tuple[str, bytes | None]] = []
    for number in range(draw(st.integers(0, 5))):
        # A number of its own keeps a key from coming twice in a row, which would be one sample with a field twice.
        key = f"{draw(segments)}{'d/' * draw(st.sampled_from((0, 1, 70)))}{draw(segments)}{number}"
        for extension in draw(st.lists(extensions, unique=True, max_size=3)):
            size = draw(sizes)
            members.append((f"{key}.{extension}", bytes([number + 65]) * size))
        if draw(st.booleans()):
            members.append((f"{key}.link", None))
        if draw(st.booleans()):
            members.append((f"{key}-no-extension", b"x" * 10))
    form = draw(st.sampled_from(FORMATS))
    if form == tarfile.USTAR_FORMAT:
        members = [(name, content) for name, content in members if len(name.encode()) <= 100]
    return Archive(tuple(members), form)


options = st.fixed_dictionaries(
    {},
    optional={
        "fetch": st.just("lazy"),
        "prefetch_bytes": st.integers(1, 20_000),
        "shuffle": st.booleans(),
        "shuffle_buffer": st.integers(0, 7),
        "seed": st.integers(0, 5),
    },
)


def written(shards: list[Archive]) -> None:
    store = open_store("memory://tar-properties")
    for key in [info.key for info in store.list()]:
        store.delete(key)
    for number, archive in enumerate(shards):
        store.write(f"{number:02}.tar", archive.body())


def dataset(**settings: Any) -> TarDataset[tuple[str, dict[str, bytes]]]:
    return TarDataset.from_prefix(
        "memory://tar-properties/",
        transform=lambda sample: (sample.key, dict(sample)),
        allow_empty=True,
        **settings,
    )


def comparable(samples: list[tuple[str, dict[str, bytes]]]) -> list[tuple[str, list[tuple[str, bytes]]]]:
    return sorted((key, sorted(fields.items())) for key, fields in samples)


@settings(max_examples=examples(20))
@given(shards=st.lists(archives(), min_size=1, max_size=4), options=options)
def test_what_tarfile_wrote_comes_back_and_goes_on_from_anywhere(shards, options):
    written(shards)
    expected = [sample for archive in shards for sample in archive.samples()]
    samples = list(dataset(**options))
    assert comparable(samples) == comparable(expected)
    if not options.get("shuffle") and options.get("shuffle_buffer", 0) < 2:
        assert samples == expected
    following = iter(dataset(**options))
    for position in range(len(samples)):
        state = json.loads(json.dumps(following.state_dict()))
        resumed = dataset(**options)
        resumed.load_state_dict(state)
        assert list(resumed) == samples[position:]
        assert next(following) == samples[position]


def reader(shard: Shard, state: TarState, source: TarDataset[Any]) -> TarIterator[Any]:
    clock = EpochClock()
    begun = ClockedPass(epoch=0, resuming=False)
    return TarIterator(source._source, source._transform, source._settings, shard, state, clock, begun)


@settings(max_examples=examples(20))
@given(
    shards=st.lists(archives(), min_size=1, max_size=6),
    options=options,
    layouts=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3), min_size=1, max_size=3),
    data=st.data(),
)
def test_any_ranks_and_workers_after_any_others_deliver_each_sample_once(shards, options, layouts, data):
    written(shards)
    source = dataset(**options)
    expected = comparable([sample for archive in shards for sample in archive.samples()])
    seen: list[tuple[str, dict[str, bytes]]] = []
    state = TarState.from_dict(source.state_dict())
    for workers in layouts:
        if state.epoch:
            break  # all was consumed, so this is the beginning of the next epoch
        states = []
        for rank, count in enumerate(workers):
            for worker in range(count):
                shard = Shard(rank=Rank(rank=rank, world_size=len(workers)), worker=worker, workers=count)
                samples = reader(shard, state, source)
                stop = data.draw(st.integers(0, 8), label=f"samples of {shard}")
                seen += islice(samples, stop)
                states.append(samples.state_dict())
                samples.close()
        state = TarState.from_dict(merge_states(json.loads(json.dumps(states[::-1]))))
    if state.epoch == 0:
        seen += reader(Shard(rank=Rank(rank=0, world_size=1)), state, source)
    assert comparable(seen) == expected
