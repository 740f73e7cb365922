"""The Hydra callback that keeps ``run_results.json`` up to date while a sweep runs, and prints its table at the end."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from bucketbench.errors import ResultsError
from bucketbench.progress import say
from bucketbench.results.record import RunRecord
from bucketbench.sweep.finish import finish

__all__ = ["ResultsCallback"]

_log = logging.getLogger(__name__)


class ResultsCallback(Callback):
    """Gathers the jobs' results from the sweep's directory after each of them, and at the end of the sweep.

    Hydra builds it from ``conf/hydra/callbacks/results.yaml``, in each process that runs a job too. It keeps nothing:
    all that it needs is in the sweep's directory.
    """

    def on_job_end(self, config: DictConfig, job_return: Any, **kwargs: Any) -> None:
        """Write what there is so far."""
        del job_return, kwargs
        try:
            record = RunRecord.read(_directory(config))
            if record is not None:
                record.write_results(ended=False)
        except ResultsError as error:
            # The jobs' own files are there; the next job must not be lost for this.
            _log.error("%s", error)

    def on_run_end(self, config: DictConfig, **kwargs: Any) -> None:
        """End the program with status 1 where the only job of ``hydra.mode=RUN`` failed."""
        del config
        job_return: JobReturn = kwargs["job_return"]
        if job_return.status is JobStatus.COMPLETED and not job_return.return_value.ok:
            raise SystemExit(1)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Write the whole, print the table, and end the program with status 1 where a job or the writing failed."""
        del kwargs
        try:
            status = finish(_directory(config))
        except ResultsError as error:
            say(f"bucketbench: {error}")
            status = 1
        if status:
            raise SystemExit(status)


def _directory(config: DictConfig) -> Path:
    return Path(str(config.hydra.runtime.cwd)) / str(config.hydra.sweep.dir)
