"""TLS: a client that is told of the testbed's authority works, one that is not refuses the server."""

from __future__ import annotations

from dataclasses import replace

from behaviour import behaviour, noise
from client_shape import Bench

VERIFIED = "TLS, verified by its authority"
REFUSED = "TLS of an unknown authority is refused"


@behaviour(VERIFIED)
def verified(bench: Bench) -> None:
    body = noise(300_000)
    client = bench.client.trusting(bench.place)
    client.save("folder/object", body)
    assert client.load("folder/object") == body
    assert client.listing("folder/") == [("folder/object", len(body))]
    assert bench.wire.get("folder/object") == body


@behaviour(REFUSED)
def refused(bench: Bench) -> None:
    stranger = bench.client.trusting(replace(bench.place, ca_certificate=None))
    with stranger.refusal("certificate"):
        stranger.load("folder/object")
    assert bench.wire.names() == []
