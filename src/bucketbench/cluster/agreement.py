"""What all nodes must have alike before they measure together: versions, and every value of the configuration."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from bucketbench.cluster.meeting import Meeting, NodeLostError
from bucketbench.configuration.settings import JobSettings, flattened
from bucketbench.errors import PreflightError
from bucketbench.provenance.host import git_commit
from bucketbench.provenance.versions import versions_of

__all__ = ["agree", "difference", "refusal_told", "refuse", "statement_of"]

_SHOWN: Final = 3  # of the differences: one cause often has many
_ABSENT: Final = "(not there)"
_REMEDY: Final = "start the same command on every node, with the same conf/ files and the same packages"


def statement_of(settings: Iterable[JobSettings]) -> dict[str, Any]:
    """What a node says of itself.

    Args:
        settings: of the jobs that it is about to run.

    Returns:
        ``versions`` by package, and ``jobs``: the values of each job by dotted name.
    """
    jobs = list(settings)
    packages = {name for job in jobs for name in job.client.requires}
    # The absolute directory, since node 0 tells the others where a job has its local files.
    values = [{**flattened(job.config), "cache_dir": job.cache_directory} for job in jobs]
    versions = versions_of({"torch", "hydra-core", *packages}) | {"the commit": git_commit() or "unknown"}
    told: dict[str, Any] = json.loads(json.dumps({"versions": versions, "jobs": values}, default=str))
    return told


def difference(own: Mapping[str, Any], first: Mapping[str, Any], *, name: str) -> str | None:
    """How what a node says of itself differs from what node 0 does, in words; None where it does not.

    Args:
        own: what :func:`statement_of` gave on the node.
        first: what it gave on node 0.
        name: of the node, in words.
    """
    if len(own["jobs"]) != len(first["jobs"]):
        return f"{name} would run {len(own['jobs'])} kinds of job and node 0 {len(first['jobs'])}: {_REMEDY}"
    pairs = [(own["versions"], first["versions"]), *zip(own["jobs"], first["jobs"], strict=True)]
    different: dict[str, None] = {}
    for ours, theirs in pairs:
        for key in sorted(ours.keys() | theirs.keys()):
            here, there = ours.get(key, _ABSENT), theirs.get(key, _ABSENT)
            if here != there:
                different[f"{key} is {here} on {name} and {there} on node 0"] = None
    if not different:
        return None
    more = len(different) - _SHOWN
    return "; ".join(list(different)[:_SHOWN]) + (f"; and {more} more" if more > 0 else "") + f": {_REMEDY}"


def agree(meeting: Meeting, topic: str, statement: Mapping[str, Any], *, within_s: float) -> None:
    """Go on when every node is here and says the same of itself. For all nodes to call.

    Args:
        meeting: of the nodes.
        topic: what it is about; each is used once.
        statement: what this node says of itself, see :func:`statement_of`.
        within_s: how long each node is waited for.

    Raises:
        PreflightError: on every node, where one differs from node 0 or has refused; the message says in what.
        NodeLostError: a node did not answer.
    """
    if meeting.nodes.is_first:
        _decide(meeting, topic, statement, within_s=within_s)
        return
    index = meeting.nodes.index
    theirs = meeting.hear(f"{topic}/statement", of=0, within_s=2 * within_s, doing="to say what it is about to do")
    meeting.met(0, theirs["host"])
    if theirs.get("refused"):
        raise PreflightError(f"node 0: {theirs['refused']}")
    problem = difference(statement, theirs, name=meeting.name)
    meeting.tell(f"{topic}/answer/{index}", {"host": platform.node(), "problem": problem})
    verdict = meeting.hear(f"{topic}/verdict", of=0, within_s=2 * within_s, doing="to compare the nodes")
    if verdict["problem"]:
        raise PreflightError(verdict["problem"])


def _decide(meeting: Meeting, topic: str, statement: Mapping[str, Any], *, within_s: float) -> None:
    meeting.tell(f"{topic}/statement", {**statement, "host": platform.node(), "refused": None})
    problems = []
    try:
        for index in range(1, meeting.nodes.count):
            answer = meeting.hear(f"{topic}/answer/{index}", of=index, within_s=within_s, doing="to compare the nodes")
            meeting.met(index, answer["host"])
            if answer["problem"]:
                problems.append(answer["problem"])
    except NodeLostError as error:
        meeting.tell(f"{topic}/verdict", {"problem": str(error)})
        raise
    problem = "; ".join(problems) or None
    meeting.tell(f"{topic}/verdict", {"problem": problem})
    if problem is not None:
        raise PreflightError(problem)


@contextmanager
def refusal_told(meeting: Meeting | None, topic: str) -> Iterator[None]:
    """A block whose refusal the other nodes are told, so that none of them waits for this one."""
    try:
        yield
    except Exception as error:
        if meeting is not None:
            refuse(meeting, topic, str(error))
        raise


def refuse(meeting: Meeting, topic: str, reason: str) -> None:
    """Tell the other nodes, instead of agreeing with them, that this one cannot do it."""
    index = meeting.nodes.index
    if meeting.nodes.is_first:
        meeting.tell(f"{topic}/statement", {"host": platform.node(), "refused": reason})
    else:
        meeting.tell(f"{topic}/answer/{index}", {"host": platform.node(), "problem": f"{meeting.name}: {reason}"})
