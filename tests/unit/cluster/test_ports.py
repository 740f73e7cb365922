"""A port is kept for the server that is told of it, and for no other."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest
from torch.distributed import TCPStore

from bucketbench.cluster.ports import held_port


@pytest.mark.parametrize("host", ["", "127.0.0.1"])
def test_a_held_port_is_served_by_the_store_that_it_is_for_and_by_nobody_else(host: str) -> None:
    with held_port(host) as port:
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.bind(("127.0.0.1", port))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        store = TCPStore("127.0.0.1", port, is_master=True, timeout=timedelta(seconds=20), wait_for_workers=False)
        store.set("key", "value")
        assert TCPStore("127.0.0.1", port, timeout=timedelta(seconds=20)).get("key") == b"value"
