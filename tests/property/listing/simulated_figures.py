"""Print how well requests share the work of a listing: the table of docs/listing.md.

    python tests/property/listing/simulated_figures.py

Every request takes one unit of time, whatever the machine does, so the figures are the same on any.
"""

from __future__ import annotations

from simulated_store import SimulatedStore, names_of_every_kind

from torchbucket.listing import list_objects, parallel

COUNT = 200_000


def main() -> None:
    print("| names | pages | requests | round trips | pages a round trip |")
    print("|---|---|---|---|---|")
    for kind, names in names_of_every_kind(COUNT).items():
        store = SimulatedStore(names, page=1000)
        parallel.SimpleQueue = store.queue  # type: ignore[misc]  # where the clock of the simulation advances
        list_objects(store)  # type: ignore[arg-type]  # its listing half
        pages = -(-len(store.names) // store.page)
        print(f"| {kind} | {pages} | {store.requests} | {store.time:.0f} | {pages / store.time:.1f} |")


if __name__ == "__main__":
    main()
