"""Two machines of one host: two network namespaces joined by a cable, the second with another monotonic clock.

Where the kernel or the user does not permit that, both are this host, and meet on loopback.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["AHEAD_S", "Machine", "two_machines"]

AHEAD_S = 100_000
"""By how much the second machine's monotonic clock is ahead of the first one's, where it has one of its own."""

_NETWORK = "10.213.77"
_CABLE = "cable"
_CLOCK = ("unshare", "--time", "--monotonic", str(AHEAD_S), "--fork", "--kill-child")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One of them: its address, and what a command is begun with to run there."""

    address: str
    interface: str = "lo"
    enter: Sequence[str] = ()
    own_clock: bool = False

    def start(self, directory: Path, *command: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command in a directory, in a session of its own."""
        directory.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(
            [*self.enter, *command],
            cwd=directory,
            # gloo would look for the host's own name, which nobody knows in these networks.
            env={**os.environ, "GLOO_SOCKET_IFNAME": self.interface, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    """The machines, for as long as the block lasts; nothing of them is left on the host."""
    if not _permitted():
        here = Machine(address="127.0.0.1")
        yield here, here
        return
    # A namespace is there as long as a process is in it; these wait for the end of their standard input.
    holders = [subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE) for _ in range(2)]
    try:
        first, second = (("nsenter", f"--net=/proc/{_inside(holder)}/ns/net") for holder in holders)
        _run(*first, "ip", "link", "add", _CABLE, "type", "veth", "peer", "name", _CABLE, "netns", str(holders[1].pid))
        for number, enter in ((1, first), (2, second)):
            _run(*enter, "ip", "address", "add", f"{_NETWORK}.{number}/24", "dev", _CABLE)
            for interface in ("lo", _CABLE):
                _run(*enter, "ip", "link", "set", interface, "up")
        yield (
            Machine(address=f"{_NETWORK}.1", interface=_CABLE, enter=first),
            Machine(address=f"{_NETWORK}.2", interface=_CABLE, enter=(*second, *_CLOCK), own_clock=True),
        )
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


def _permitted() -> bool:
    tools = ("ip", "nsenter", "unshare")
    if os.geteuid() != 0 or any(shutil.which(tool) is None for tool in tools):
        return False
    cable = [*_CLOCK, "unshare", "--net", "ip", "link", "add", _CABLE, "type", "veth", "peer", "name", "other"]
    return subprocess.run(cable, capture_output=True, check=False).returncode == 0


def _inside(holder: subprocess.Popen[bytes]) -> int:
    """The holder's process, once it is in its own network: `unshare` becomes what it runs."""
    ours = Path("/proc/self/ns/net").readlink()
    while holder.poll() is None and Path(f"/proc/{holder.pid}/ns/net").readlink() == ours:
        pass
    return holder.pid


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
