"""What the nodes tell one another: small JSON texts and files, by the store of ``torch.distributed``.

The store is a map that one process keeps and all of them reach (``TCPStore``). It knows no users and no passwords, like
all of ``torch.distributed``: the network between the nodes has to be trusted.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, Protocol

from bucketbench.cluster.nodes import Nodes
from bucketbench.errors import BucketbenchError
from bucketbench.progress import say

__all__ = ["ARRIVAL_S", "Meeting", "NodeLostError", "leave", "meet"]

ARRIVAL_S: Final = 600.0
"""How long the first of the nodes waits for the others.

*Source*: ours, as long as torchrun's own rendezvous: images are pulled and environments made meanwhile.
"""

_POLL_S: Final = (0.01, 0.5)  # the least and the most between two looks; a look is one small request
_FAREWELL_S: Final = 10.0
_CHUNK_BYTES: Final = 1 << 20  # the store takes 8 MiB at most at once


class Store(Protocol):
    """What is used of a ``torch.distributed.Store``."""

    def set(self, key: str, value: str | bytes, /) -> None:
        """Put a value under a key."""

    def get(self, key: str, /) -> bytes:
        """The value under a key, which is there."""

    def check(self, keys: list[str], /) -> bool:
        """Whether there are values under all of the keys."""

    def delete_key(self, key: str, /) -> bool:
        """Forget a key."""


class NodeLostError(BucketbenchError):
    """Another node does not answer; the message names it, and for how long it was waited for."""


class Meeting:
    """The nodes of one command, connected.

    Args:
        nodes: this one's place among them.
        store: what all of them reach.
        clock: seconds, for the waiting.
        sleep: waits.
    """

    def __init__(
        self,
        nodes: Nodes,
        store: Store,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.nodes = nodes
        self._hosts = {nodes.index: platform.node()}
        self._store = store
        self._clock = clock
        self._sleep = sleep
        self._events = 0
        self._lost: set[int] = set()

    @property
    def name(self) -> str:
        """This node in words. Hosts have names of their own, which are shown once and do not get into results."""
        return f"node {self.nodes.index}"

    def met(self, index: int, host: str) -> None:
        """Show the host of another node, the first time that it is heard of."""
        if self._hosts.setdefault(index, "") != host:
            self._hosts[index] = host
            say(f"node {index} is {host}")

    def tell(self, key: str, value: Any) -> None:
        """Let every node know a JSON value under a key; a value that was told before is replaced."""
        self._asked(self._store.set, key, json.dumps(value))

    def told(self, key: str) -> Any:
        """What was told under a key; None where nothing was, or null."""
        return json.loads(self._asked(self._store.get, key)) if self._has(key) else None

    def hear(self, key: str, *, of: int, within_s: float | None, doing: str) -> Any:
        """Wait for what is told under a key.

        Args:
            key: it is told under.
            of: the node that tells it.
            within_s: how long to wait; None for as long as the store answers.
            doing: what that node is waited for, for the message, such as ``to begin job 3``.

        Raises:
            NodeLostError: it was not told in time, or the store is gone.
        """
        started_s, pause_s = self._clock(), _POLL_S[0]
        while not self._has(key):
            if of in self._lost:
                raise NodeLostError(f"node {of} was waited for {doing}, and it had not answered before either")
            if self._has(f"left/{of}") and not self._has(key):
                raise NodeLostError(
                    f"node {of} was waited for {doing} and has ended with status {self.told(f'left/{of}')}; see what "
                    "it has written"
                )
            if within_s is not None and self._clock() - started_s > within_s:
                self._lost.add(of)
                raise NodeLostError(
                    f"node {of} was waited for {doing} and did not answer within {within_s:.0f} s: it has ended "
                    "or hangs, or the network between them is cut; see what it has written"
                )
            self._sleep(pause_s)
            pause_s = min(2 * pause_s, _POLL_S[1])
        return self.told(key)

    def send(self, key: str, content: bytes) -> None:
        """Let another node have bytes, of any number, under a key that is used once."""
        chunks = range(0, len(content), _CHUNK_BYTES)
        for number, start in enumerate(chunks):
            self._asked(self._store.set, f"{key}/{number}", content[start : start + _CHUNK_BYTES])
        self.tell(f"{key}/chunks", len(chunks))

    def receive(self, key: str, *, of: int, within_s: float, doing: str) -> bytes:
        """The bytes that another node sends under a key, which are then forgotten; see ``hear``."""
        chunks = int(self.hear(f"{key}/chunks", of=of, within_s=within_s, doing=doing))
        pieces: list[bytes] = []
        for number in range(chunks):
            pieces.append(self._asked(self._store.get, f"{key}/{number}"))
            self._asked(self._store.delete_key, f"{key}/{number}")
        return b"".join(pieces)

    def announce(self, event: dict[str, Any]) -> None:
        """Let the other nodes know what comes next; for node 0 alone."""
        self.tell(f"event/{self._events}", event)
        self._events += 1

    def next_event(self) -> dict[str, Any]:
        """Wait for what node 0 announces next, however long that takes."""
        event: dict[str, Any] = self.hear(f"event/{self._events}", of=0, within_s=None, doing="to go on")
        self._events += 1
        return event

    def leave(self, status: int) -> None:
        """Tell the others that this node ends, and as node 0 wait a little until they have heard why."""
        try:
            if not self.nodes.is_first:
                self.tell(f"left/{self.nodes.index}", status)
                return
            self.announce({"ended": status})
            for index in range(1, self.nodes.count):
                self.hear(f"left/{index}", of=index, within_s=_FAREWELL_S, doing="to end")
        except NodeLostError:
            pass  # what it was lost by is told already

    def _has(self, key: str) -> bool:
        return bool(self._asked(self._store.check, [key]))

    def _asked(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(*arguments)
        except RuntimeError as error:  # what torch.distributed raises
            raise NodeLostError(
                f"the store of node 0 at {self.nodes.address}:{self.nodes.port} answers no more: node 0 has ended, or "
                f"the network between them is cut; see what node 0 has written ({_first_line(error)})"
            ) from error


_opened: list[Meeting] = []
"""The one of this process: its place among the nodes is of its environment, and does not change."""


def meet(nodes: Nodes | None = None) -> Meeting | None:
    """Connect with the other nodes, or find the connection again that this process has; None where there is one node.

    Raises:
        ConfigurationError: the environment says something impossible.
        NodeLostError: they did not come.
    """
    if not _opened:
        nodes = Nodes.from_environment() if nodes is None else nodes
        if nodes.count == 1:
            return None
        _opened.append(Meeting(nodes, _connected(nodes)))
        say(f"node {nodes.index} of {nodes.count}, {platform.node()}")
    return _opened[0]


def leave(status: int) -> None:
    """End the connection that this process has, if any; see :meth:`Meeting.leave`."""
    while _opened:
        _opened.pop().leave(status)


def _connected(nodes: Nodes) -> Store:
    from torch.distributed.rendezvous import rendezvous  # here, since a sweep on one machine does without torch

    where = f"{nodes.address}:{nodes.port}"
    try:
        # By arguments and not by variables: Slurm's launcher sets none. Under torchrun its agent keeps the store.
        store: Store = next(
            rendezvous(
                f"tcp://{_bracketed(nodes.address)}:{nodes.port}",
                nodes.index,
                nodes.count,
                timeout=timedelta(seconds=ARRIVAL_S),
            )
        )[0]
    except (RuntimeError, ValueError, OSError) as error:
        raise NodeLostError(
            f"node {nodes.index} of {nodes.count} could not meet the others at {where} within {ARRIVAL_S:.0f} s: start "
            f"the same command on every node, and let the port through ({_first_line(error)})"
        ) from error
    return store


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
