"""gcs-torch-dataflux in its own environment: its checkpoint's reader and writer, chunked upload and fast listing."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import ClassVar

from broken import BrokenError, published_truncated
from client_shape import PART_BYTES, Bench, Client, Departure, Place
from dataflux_process import DatafluxError, ask

_NO_EMPTY_OBJECT = "dataflux's writer cannot write an empty object: it completes an upload that has no part."


def empty_is_refused(bench: Bench) -> None:
    for pieces in ([b""], []):
        with bench.client.refusal("no part"):
            bench.client.stream("empty", pieces)
    assert bench.wire.names() == []
    assert bench.open_uploads() == []


def markers_are_left_out(bench: Bench) -> None:
    bench.client.save("folder/", b"marker")
    assert bench.wire.names() == ["folder/"]
    assert bench.client.load("folder/") == b"marker"
    assert bench.client.listing("") == []


class Dataflux(Client):
    name = "dataflux"
    lacks: ClassVar = {
        **dict.fromkeys(("size", "delete", "delete_many", "copy", "move", "compose"), "left to google-cloud-storage"),
        **dict.fromkeys(("load_range", "load_tail"), "it reads whole objects"),
        **dict.fromkeys(("list_folder", "list_after"), "its listing is of everything under a prefix"),
        **dict.fromkeys(("version", "create", "replace", "load_version"), "it has no conditions"),
        **dict.fromkeys(("save_described", "described", "save_mislabelled", "digests"), "it moves bytes only"),
        **dict.fromkeys(("signed_get", "signed_put"), "it signs no addresses"),
        "abandon": "its writer sends everything when it is closed, and nothing before",
    }
    departs: ClassVar = {
        "an object of no bytes": Departure(says=_NO_EMPTY_OBJECT, shown=empty_is_refused),
        "a stream of no bytes": Departure(says=_NO_EMPTY_OBJECT, shown=empty_is_refused),
        "names: trailing `/`": Departure(
            says="dataflux's listing leaves out names that end in `/`.", shown=markers_are_left_out
        ),
        "a writer's block that fails publishes nothing": published_truncated("dataflux"),
    }
    errors: ClassVar = {
        "no part": (DatafluxError, "400"),
        "missing": (DatafluxError, "NotFound"),
        "no bucket": (DatafluxError, "NotFound"),
        "name": (DatafluxError, "400"),
        "certificate": (DatafluxError, "CERTIFICATE_VERIFY_FAILED"),
    }

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.place = {
            "endpoint": place.gcs_endpoint,
            "bucket": place.bucket,
            "ca_certificate": str(place.ca_certificate) if place.ca_certificate else None,
        }

    def save(self, key: str, body: bytes) -> None:
        self.stream(key, [body])

    def load(self, key: str) -> bytes:
        return base64.b64decode(ask("load", place=self.place, key=key))

    def save_large(self, key: str, body: bytes) -> None:
        text = base64.b64encode(body).decode()
        ask("save_large", place=self.place, key=key, body=text, part_bytes=PART_BYTES)

    def stream(self, key: str, pieces: Iterable[bytes]) -> None:
        sent: list[str] = []
        broken = None
        try:
            sent.extend(base64.b64encode(piece).decode() for piece in pieces)
        except BrokenError as error:  # It must fail in the program's own block.
            broken = error
        try:
            ask("save", place=self.place, key=key, pieces=sent, fails=broken is not None)
        except DatafluxError as error:
            if broken is not None and "the block fails" in str(error):
                raise broken from error
            raise

    def listing(self, prefix: str) -> list[tuple[str, int]]:
        found = ask("listing", place=self.place, prefix=prefix, processes=1)
        return [(name, size_bytes) for name, size_bytes in found]

    def data_set(self, kind: str, prefix: str, *, composes: bool) -> dict[str, bytes]:
        """Returns what a data set yields, by name; `kind` is `map` or `iterable`."""
        found = ask("data_set", place=self.place, kind=kind, prefix=prefix, composes=composes)
        return {name: base64.b64decode(body) for name, body in found}
