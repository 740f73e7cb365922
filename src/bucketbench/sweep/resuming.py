"""An interrupted sweep taken up again: the jobs that are missing, with the configurations that it recorded.

It is an ordinary Hydra program. Its configuration is not composed from the files in ``conf/``, which may say something
else by now: it is what the run's directory has, given to Hydra by its ``ConfigStore``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import hydra
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from bucketbench.cluster.agreement import refusal_told
from bucketbench.cluster.meeting import ARRIVAL_S, Meeting, meet
from bucketbench.errors import PreflightError, ResultsError
from bucketbench.job.composed import config_directories
from bucketbench.job.run import run_job
from bucketbench.progress import say
from bucketbench.provenance.host import describe_host, git_commit
from bucketbench.report.runs import read_jobs
from bucketbench.results.job import JobResult
from bucketbench.results.lock import held
from bucketbench.results.record import RunRecord, run_versions
from bucketbench.scenarios import find_scenario
from bucketbench.sweep.entry import run_program
from bucketbench.sweep.finish import finish
from bucketbench.sweep.jobs import Jobs, with_hydra
from bucketbench.sweep.options import SweepOptions
from bucketbench.sweep.sweep import COMMON_FILE, Sweep

__all__ = ["resume", "sweep_rest"]

_NAME: Final = "resumed"
_TOPIC: Final = "resume"  # what node 0 tells the others before the first job
_SWEEPER: Final = "hydra_plugins.bucketbench.resuming_sweeper.ResumingSweeper"
_GROUPS: Final = ("launcher", "callbacks", "hydra_logging", "job_logging")
"""Of Hydra's groups those that a run may have chosen otherwise."""

_KEPT: Final = ("run", "job", "sweep", "verbose", "output_subdir")
"""Of Hydra's other keys those that have an effect on a sweep."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rest:
    """What is still to be done of a sweep."""

    directory: Path
    common: DictConfig
    jobs: Jobs
    numbers: Sequence[int]


_resumed: list[_Rest] = []
"""What the program resumes, for the sweeper that Hydra builds."""


def resume(directory: Path, *, failed: bool, despite_changes: bool) -> int:
    """Run the jobs of a sweep that are missing or were interrupted, into its own directory.

    They run in the order in which they would have run, and what was measured before stays as it is. Called again when
    nothing is missing, it only makes the report again.

    Args:
        directory: the run's.
        failed: whether jobs that failed are run again, too.
        despite_changes: whether it may go on with another commit, other versions or another machine.

    Returns:
        As ``bucketbench run``: 0; 1 where a job failed; 3 where the sink does not have the results; 130 where it was
        interrupted again.

    Raises:
        UsageError: it was refused: the run still goes on, or was made by other code or elsewhere.
        ResultsError: it is no run, or its files are damaged.
    """
    meeting = meet()
    if meeting is not None and not meeting.nodes.is_first:
        return _help(meeting)
    directory = directory.absolute()
    with contextlib.ExitStack() as stack:
        with refusal_told(meeting, _TOPIC):
            record = _record(directory)
            stack.enter_context(held(directory))
            common = _common(directory)
            stack.enter_context(_in_its_place(common))
            jobs = Jobs.read(directory)
            results = [result for _, result in read_jobs(directory)]
            numbers, done = _to_be_done(results, jobs, failed=failed)
            if numbers and not despite_changes:
                _check_identity(record, results)
        if meeting is not None:
            told = {"scenario": record.scenario, "common": _plain(common), "jobs": jobs.to_json(), "numbers": numbers}
            meeting.tell(f"{_TOPIC}/statement", told)
        if numbers:
            return _run(_Rest(directory=directory, common=common, jobs=jobs, numbers=numbers), record.scenario)
        replace(record, interrupted=False).write()  # it may have been, after its last job
        say(f"nothing is missing: all {len(jobs)} jobs are done{_hint(done)}")
        return finish(directory, html=OmegaConf.select(common, "hydra.callbacks.results.html", default=False))


def _help(meeting: Meeting) -> int:
    """Take part in what node 0 resumes; it has the run's directory, and tells what the jobs are."""
    told = meeting.hear(f"{_TOPIC}/statement", of=0, within_s=ARRIVAL_S, doing="to say what is resumed")
    if told.get("refused"):
        raise PreflightError(f"node 0: {told['refused']}")
    if not told["numbers"]:
        return 0
    common = with_hydra(told["common"])
    rest = _Rest(directory=Path(), common=common, jobs=Jobs.from_json(told["jobs"]), numbers=told["numbers"])
    return _run(rest, told["scenario"])


def _record(directory: Path) -> RunRecord:
    record = RunRecord.read(directory) if directory.is_dir() else None
    if record is None:
        raise ResultsError(f"{directory} is not the directory of a run: name one in multirun/SCENARIO/")
    return record


def sweep_rest(context: HydraContext, task_function: TaskFunction) -> list[JobReturn]:
    """Launch what is to be done; for the sweeper that Hydra builds in ``resume``."""
    rest = _resumed[0]
    options = rest.common.hydra.sweeper
    sweep = Sweep(
        context,
        task_function,
        rest.common,
        # The points and their order are those of the recorded jobs.
        options=SweepOptions(
            jobs_at_once=options.jobs_at_once, parallel_on_one_host=options.parallel_on_one_host, order_seed=None
        ),
    )
    return sweep.resume(rest.directory, rest.jobs, rest.numbers)


def _common(directory: Path) -> DictConfig:
    path = directory / COMMON_FILE
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
        common = with_hydra(fields)
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ResultsError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    common.hydra.sweep.dir = str(directory)
    return common


@contextlib.contextmanager
def _in_its_place(common: DictConfig) -> Iterator[None]:
    """Be where the sweep was started, since its configuration may have relative paths, such as ``cache_dir``."""
    started_in = Path(str(common.hydra.runtime.cwd))
    with contextlib.chdir(started_in if started_in.is_dir() else Path.cwd()):
        yield


def _to_be_done(results: Sequence[JobResult], jobs: Jobs, *, failed: bool) -> tuple[list[int], Mapping[int, bool]]:
    """The numbers of the jobs to run, and of the others whether they succeeded."""
    done = {result.number: result.ok for result in results if not result.interrupted and (result.ok or not failed)}
    return [number for number in range(len(jobs)) if number not in done], done


def _hint(done: Mapping[int, bool]) -> str:
    failed = sum(not ok for ok in done.values())
    return f", {failed} of them failed; --failed runs those again" if failed else ""


def _check_identity(record: RunRecord, results: Sequence[JobResult]) -> None:
    """Raise where what would be measured now could not stand beside what was measured then."""
    pairs = {
        "the commit": (record.commit, git_commit()),
        **_pairs(record.versions, run_versions()),
        **_pairs(record.host, describe_host()),
        **_packages(results),
    }
    pairs.pop("cloud_reason", None)  # of a metadata service that did not answer this time
    changed = [f"{name} was {then} and is {now}" for name, (then, now) in pairs.items() if then != now]
    if changed:
        raise PreflightError(
            f"the run was begun otherwise: {'; '.join(changed)}. Its jobs would not be comparable: restore that, start "
            "a new run, or resume it with --despite-changes"
        )


def _packages(results: Sequence[JobResult]) -> dict[str, tuple[Any, Any]]:
    """The versions of what the jobs so far were measured with, and those that are installed by now.

    Clients with an environment of their own are left out: what is in it is not known here.
    """
    pairs: dict[str, tuple[Any, Any]] = {}
    for result in results:
        own = result.client_options.get("environment") is not None
        for name, then in {} if own else result.versions.items():
            with contextlib.suppress(metadata.PackageNotFoundError):  # no package, such as libcurl
                pairs.setdefault(name, (then, metadata.version(name)))
    return pairs


def _pairs(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (then.get(name), now.get(name)) for name in dict.fromkeys([*then, *now])}


def _run(rest: _Rest, scenario: str) -> int:
    _tell_hydra(rest)
    main = hydra.main(config_path=None, config_name=_NAME, version_base="1.3")(run_job)
    _resumed.append(rest)
    try:
        return run_program(main, f"bucketbench resume {rest.directory}", [], scenario=find_scenario(scenario))
    finally:
        _resumed.clear()


def _tell_hydra(rest: _Rest) -> None:
    """Have Hydra find what was recorded under one name, in each of its groups too."""
    fields = _plain(rest.common)
    own = fields.pop("hydra")
    store = ConfigStore.instance()
    for group in _GROUPS:
        store.store(group=f"hydra/{group}", name=_NAME, node=own[group], package=f"hydra.{group}")
    store.store(group="hydra/sweeper", name=_NAME, node={"_target_": _SWEEPER}, package="hydra.sweeper")
    defaults = [*({f"override hydra/{group}": _NAME} for group in (*_GROUPS, "sweeper")), "_self_"]
    directories = config_directories(rest.common.hydra)  # where a sink of the user's own is found
    kept = {name: own[name] for name in _KEPT} | {"mode": "MULTIRUN"}
    kept["job"] = {name: value for name, value in kept["job"].items() if name in ("name", "chdir", "env_set", "config")}
    searchpath = [f"file://{directory}" for directory in directories]
    node = {"defaults": defaults, **fields, "hydra": {**kept, "searchpath": searchpath}}
    store.store(name=_NAME, node=node, package="_global_")


def _plain(config: DictConfig) -> dict[str, Any]:
    fields: Any = OmegaConf.to_container(config, resolve=False, enum_to_str=True)
    return dict(fields)
