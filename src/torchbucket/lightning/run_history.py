"""Which checkpoints a run went on from, so that it never removes what is another run's."""

from __future__ import annotations

from torchbucket.uri import ObjectURI

__all__ = ["RunHistory"]


class RunHistory:
    """What a run has loaded and saved so far."""

    def __init__(self) -> None:
        self._loaded: set[ObjectURI] = set()
        self._resumed: set[ObjectURI] = set()
        self._directories: set[str] = set()

    def loads(self, location: ObjectURI) -> None:
        """The run has loaded this one."""
        self._loaded.add(location)

    def saves(self, location: ObjectURI) -> None:
        """The run saves one there: what it has loaded by now is what it went on from."""
        self.writes(location)
        self._resumed |= self._loaded
        for others in (self._loaded, self._resumed):
            others.discard(location)  # what this run saves there takes the place of what it went on from

    def writes(self, location: ObjectURI) -> None:
        """The directory is one that this run has something in."""
        self._directories.add(_directory(location))

    def is_of_another_run(self, location: ObjectURI) -> bool:
        """Whether the run went on from this one or from one in it, or went on and has nothing of its own beside it."""
        within = f"{location}/"
        if any(resumed == location or str(resumed).startswith(within) for resumed in self._resumed):
            return True
        return bool(self._resumed) and _directory(location) not in self._directories


def _directory(location: ObjectURI) -> str:
    return str(location).rpartition("/")[0]
