"""The Hydra callback that keeps ``run_results.json`` up to date while a sweep runs, and prints its table at the end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Final

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from bucketbench.cluster.nodes import Nodes
from bucketbench.errors import ResultsError
from bucketbench.job.composed import config_directories
from bucketbench.progress import say
from bucketbench.results.record import RunRecord
from bucketbench.sinks.chosen import chosen_sink
from bucketbench.sinks.delivery import NOT_PUSHED, push_sweep, tell_unpushed
from bucketbench.sweep.finish import INTERRUPTED_STATUS, finish

__all__ = ["ResultsCallback"]

_SWEEPERS: Final = "hydra_plugins.bucketbench."  # the modules of those that keep a record of their jobs


class ResultsCallback(Callback):
    """Gathers the jobs' results from the sweep's directory after each of them, and at the end of the sweep.

    Hydra builds it from ``conf/hydra/callbacks/results.yaml``, in each process that runs a job too. It keeps nothing:
    all that it needs is in the sweep's directory. Of several nodes the first one has that.

    Args:
        html: whether the sweep's page is written at its end.
    """

    def __init__(self, html: bool = True) -> None:
        self._html = html

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """End the program with status 2 where another sweeper was chosen than those that run these jobs."""
        del kwargs
        if not str(config.hydra.sweeper._target_).startswith(_SWEEPERS):
            chosen = config.hydra.runtime.choices.get("hydra/sweeper")
            say(
                f"bucketbench: hydra/sweeper={chosen} keeps no record of a run, so that nothing could be told "
                "of its jobs: leave it out to measure every combination of the swept values, or search them with "
                "hydra/sweeper=optuna"
            )
            raise SystemExit(2)

    def on_job_end(self, config: DictConfig, job_return: Any, **kwargs: Any) -> None:
        """Write what there is so far."""
        del job_return, kwargs
        if not Nodes.from_environment().is_first:
            return
        try:
            record = RunRecord.read(_directory(config))
            if record is not None:
                record.write_results(ended=False)
        except ResultsError as error:
            # The jobs' own files are there; the next job must not be lost for this.
            say(f"bucketbench: {error}")

    def on_run_end(self, config: DictConfig, **kwargs: Any) -> None:
        """End the program with status 1 where the only job of ``hydra.mode=RUN`` failed."""
        if not Nodes.from_environment().is_first:
            return
        job_return: JobReturn = kwargs["job_return"]
        if job_return.status is JobStatus.COMPLETED and not job_return.return_value.ok:
            raise SystemExit(1)
        if chosen_sink(_sink(config)) is not None:
            say("bucketbench: NOT PUSHED to the sink: a single job is no run; leave hydra.mode=RUN out to have one")
            raise SystemExit(NOT_PUSHED)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Write the whole and its page, print the table, send it to the sink, and end with the status that says how.

        That is 1 where a job or the writing failed, and else 3 where the sink does not have the results.
        """
        del kwargs
        if not Nodes.from_environment().is_first:
            return
        directory = _directory(config)
        try:
            status = finish(directory, html=self._html)
        except ResultsError as error:
            say(f"bucketbench: {error}")
            raise SystemExit(1) from None
        except KeyboardInterrupt:
            say(f"interrupted while the report was made; have it by: bucketbench report {shlex.quote(str(directory))}")
            tell_unpushed(_sink(config), directory)
            raise SystemExit(INTERRUPTED_STATUS) from None
        pushed = push_sweep(_sink(config), directory, config_directories=config_directories(config.hydra))
        if status or pushed:
            raise SystemExit(status or pushed)


def _sink(config: DictConfig) -> dict[str, Any]:
    """The group ``sink``, empty where a configuration has none."""
    sink = config.get("sink")
    fields: Any = {} if sink is None else OmegaConf.to_container(sink, resolve=True)
    return {str(key): value for key, value in fields.items()}


def _directory(config: DictConfig) -> Path:
    return Path(str(config.hydra.runtime.cwd)) / str(config.hydra.sweep.dir)
