"""One job whose ranks are on several nodes: node 0 leads it and gets all records, the others help.

Each node starts its own ranks, watches them, and ends them when another node's have failed. What is told, under
``job/NUMBER/``: that the nodes are alike (:mod:`bucketbench.cluster.agreement`), ``begin`` with what is to be measured,
``failed`` by the first node whose ranks did not end well, and each helper's ``parcel/NODE`` of files with its ``end``.
"""

from __future__ import annotations

import json
import shutil
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from bucketbench.cluster.agreement import agree, statement_of
from bucketbench.cluster.meeting import ARRIVAL_S, Meeting, NodeLostError
from bucketbench.cluster.parcels import pack, unpack
from bucketbench.cluster.ports import held_port
from bucketbench.configuration.settings import JobSettings
from bucketbench.errors import PreflightError, ResultsError
from bucketbench.job.description import LOG_FILE, Description, rank_directory
from bucketbench.job.process import NodeShare, ProcessEnd
from bucketbench.reasons import reason_of
from bucketbench.scenarios import find_scenario
from bucketbench.secrecy import scrub_files, secret_values

__all__ = ["RunRanks", "help_with", "lead"]

_ANSWER_S: Final = 60.0
"""How long a node is waited for that is known to be there. *Source*: ours; ending a job's ranks takes 30 s at most."""

_REACH_S: Final = 5.0


class RunRanks(Protocol):
    """Runs this node's ranks; what ``run_measured_process`` does, with most of its arguments given."""

    def __call__(self, *, share: NodeShare, given_up: Callable[[], str | None]) -> ProcessEnd:
        """Run them to their end."""


def lead(
    meeting: Meeting,
    settings: JobSettings,
    *,
    number: int,
    directory: Path,
    description: Description,
    own_directories: Sequence[str],
    run: RunRanks,
) -> str:
    """Run a job together with the other nodes, as node 0, and gather the records of all.

    Args:
        meeting: of the nodes.
        settings: of the job.
        number: of the job in its run; each is used once.
        directory: the job's; the directory of every rank is in it then, if need be empty.
        description: of the job.
        own_directories: those that the measured process makes, see ``Job.own_directories``.
        run: runs the ranks of this node.

    Returns:
        Why the ranks ended, where one left no outcome.

    Raises:
        PreflightError: the nodes are not alike.
        NodeLostError: a node does not answer.
    """
    topic, nodes, world_size = f"job/{number}", meeting.nodes, settings.processes
    meeting.announce({"job": number})
    agree(meeting, topic, statement_of([settings]), within_s=_within_s(meeting))
    for rank in range(world_size):  # so that a rank that leaves nothing is missed
        rank_directory(directory, rank=rank, world_size=world_size).mkdir(parents=True, exist_ok=True)
    with held_port() as port:
        share = NodeShare(
            index=0, count=nodes.count, endpoint=f"{nodes.address}:{port}", job_id=f"{number}-{uuid.uuid4().hex}"
        )
        meeting.tell(
            f"{topic}/begin",
            {
                "job": description.job,
                "own_directories": list(own_directories),
                "endpoint": share.endpoint,
                "job_id": share.job_id,
            },
        )
        with _failure_told(meeting, topic):
            end = run(share=share, given_up=lambda: meeting.told(f"{topic}/failed"))
    reasons = []
    if not end.ok:
        _tell_failed(meeting, topic)
        reasons = [end.reason] if end.given_up is None else []
    for index in range(1, nodes.count):
        reason = _gathered(meeting, topic, index, directory, world_size)
        if reason is not None:
            reasons.append(reason)
    return "; ".join(reasons) or end.reason


def help_with(
    meeting: Meeting,
    settings: JobSettings,
    *,
    number: int,
    run_in: Callable[[Path, JobSettings], RunRanks],
) -> None:
    """Run this node's ranks of a job that node 0 leads, and send it what they have left.

    Args:
        meeting: of the nodes.
        settings: of the job.
        number: of the job in its run.
        run_in: gives what runs the ranks of this node in a directory, where ``job.json`` lies.

    Raises:
        PreflightError: the nodes are not alike.
        NodeLostError: node 0 does not answer.
    """
    topic, nodes, world_size = f"job/{number}", meeting.nodes, settings.processes
    agree(meeting, topic, statement_of([settings]), within_s=_within_s(meeting))
    begin = meeting.hear(f"{topic}/begin", of=0, within_s=_ANSWER_S, doing="to begin the job")
    share = NodeShare(index=nodes.index, count=nodes.count, endpoint=begin["endpoint"], job_id=begin["job_id"])
    # Whatever was told, this node removes nothing that was there before.
    own = [folder for folder in map(Path, begin["own_directories"]) if not folder.exists()]
    ranks = _ranks_of(nodes.index, nodes.count, world_size)
    with TemporaryDirectory(prefix="bucketbench-node-") as name:
        directory = Path(name)
        try:
            with _failure_told(meeting, topic):
                reason = _unreachable(begin["job"], settings)
                if reason is None:
                    _description(begin["job"], settings).write(directory)
                    end = run_in(directory, settings)(share=share, given_up=lambda: meeting.told(f"{topic}/failed"))
                    reason = None if end.ok or end.given_up is not None else end.reason
        except (OSError, PreflightError) as error:
            reason = f"the job could not be run: {reason_of(error)}"
        finally:
            for folder in own:
                shutil.rmtree(folder, ignore_errors=True)
        if reason is not None:
            _tell_failed(meeting, topic)
        scrub_files([path for path in directory.rglob("*") if path.is_file()], secret_values())
        meeting.send(f"{topic}/parcel/{nodes.index}", pack(directory, ranks, world_size=world_size))
        meeting.tell(f"{topic}/end/{nodes.index}", reason)


def _gathered(meeting: Meeting, topic: str, index: int, directory: Path, world_size: int) -> str | None:
    """Lay a node's records beside this one's; why they are not there or its ranks ended, None where all is well."""
    ranks = _ranks_of(index, meeting.nodes.count, world_size)
    log = directory / f"{Path(LOG_FILE).stem}.node-{index}{Path(LOG_FILE).suffix}"
    heard: dict[str, Any] = {"of": index, "within_s": _ANSWER_S, "doing": "to send its records"}
    try:
        unpack(meeting.receive(f"{topic}/parcel/{index}", **heard), directory, ranks, world_size=world_size, log=log)
        reason: str | None = meeting.hear(f"{topic}/end/{index}", **heard)
    except NodeLostError as error:
        return str(error)
    except ResultsError as error:
        reason = str(error)
    return None if reason is None else f"node {index}: {reason}"


@contextmanager
def _failure_told(meeting: Meeting, topic: str) -> Iterator[None]:
    """A block that, should it be interrupted, lets no other node wait for this one's ranks."""
    try:
        yield
    except BaseException:
        with suppress(NodeLostError):  # what ended the block is told instead
            _tell_failed(meeting, topic)
        raise


def _tell_failed(meeting: Meeting, topic: str) -> None:
    if meeting.told(f"{topic}/failed") is None:
        meeting.tell(f"{topic}/failed", f"ended, since the ranks on {meeting.name} had failed")


def _within_s(meeting: Meeting) -> float:
    return ARRIVAL_S if meeting.nodes.of_one_job else _ANSWER_S


def _ranks_of(index: int, count: int, world_size: int) -> range:
    each = world_size // count
    return range(index * each, (index + 1) * each)


def _description(job: Mapping[str, Any], settings: JobSettings) -> Description:
    """The job as node 0 describes it; what is imported and run for it is said by this node's own configuration."""
    return Description(
        measurement=find_scenario(settings.scenario).measurement,
        search_path=settings.config_directories,
        requires=settings.client.requires,
        job={**job, "client": json.loads(json.dumps(asdict(settings.client)))},
    )


def _unreachable(job: Mapping[str, Any], settings: JobSettings) -> str | None:
    """Why the testbed of node 0 cannot be used from here; None where it can, or where the target is a real service."""
    if not settings.uses_testbed:
        return None
    address = urlsplit(str(job["target"]["endpoint"]))
    try:
        socket.create_connection((str(address.hostname), address.port or 0), timeout=_REACH_S).close()
    except OSError as error:
        return (
            f"node 0's testbed at {address.netloc} cannot be reached ({error.strerror or error}): have it serve on an "
            "address of node 0 that the other nodes reach, by target.listen=ADDRESS, or take target=s3 or target=gs"
        )
    return None
