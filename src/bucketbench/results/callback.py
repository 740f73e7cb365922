"""The Hydra callback that keeps ``run_results.json`` up to date while a sweep runs."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from hydra.experimental.callback import Callback

from bucketbench.errors import ResultsError
from bucketbench.results.run import RunResults

__all__ = ["ResultsCallback"]

_log = logging.getLogger(__name__)


class ResultsCallback(Callback):
    """Gathers the jobs' results after each of them and at the end of the sweep.

    Hydra builds it from ``conf/hydra/callbacks/results.yaml``. Which sweep it writes for is set by the entry point in
    ``current`` before Hydra starts: a callback is given the composed configuration, and that does not hold it.
    """

    current: ClassVar[RunResults | None] = None

    def on_job_end(self, config: Any, job_return: Any, **kwargs: Any) -> None:
        """Write what there is so far."""
        del config, job_return, kwargs
        self._write(ended=False)

    def on_multirun_end(self, config: Any, **kwargs: Any) -> None:
        """Write the whole."""
        del config, kwargs
        self._write(ended=True)

    def _write(self, *, ended: bool) -> None:
        if self.current is None:
            return
        try:
            self.current.write(ended=ended)
        except ResultsError as error:
            # The jobs' own files are there; the next job must not be lost for this.
            _log.error("%s", error)
