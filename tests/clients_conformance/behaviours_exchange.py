"""What one client writes, all the others read."""

from __future__ import annotations

from behaviour import behaviour, noise
from client_shape import PART_BYTES, Bench
from clients import CLIENTS

EXCHANGE = "what it writes, every client reads"


@behaviour(EXCHANGE)
def exchange(bench: Bench) -> None:
    small, large = noise(1000, seed=6), noise(PART_BYTES + 1, seed=7)
    bench.client.save("shared/a b+é", small)
    if "save_large" in bench.client.lacks:
        bench.client.save("shared/large", large)
    else:
        bench.client.save_large("shared/large", large)
    for kind in CLIENTS.values():
        reader = kind(bench.place)
        assert reader.load("shared/a b+é") == small, kind.name
        assert reader.load_large("shared/large") == large, kind.name
        listed = [("shared/a b+é", len(small)), ("shared/large", len(large))]
        assert sorted(reader.listing("shared/")) == listed, kind.name
