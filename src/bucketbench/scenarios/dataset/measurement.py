"""The dataset scenario: how fast a client feeds a PyTorch training loop, epoch after epoch.

What is timed:

- *index*: building the client, its data set, and the DataLoader (for a map data set, its length); most clients list
  the bucket here. An iterable data set that lists when it is iterated does so within the epoch.
- *epoch*: from asking the DataLoader for the first batch until the last one was used, in workers that a warm-up pass
  has already used (with ``persistent_workers``). Throughput is the content of all epochs over their
  seconds.
- *fetch*: a worker's fetch of one batch from the client. The check of its content and its decoding come after it, each
  within the epoch.
- *decode*, *wait*, *step*: the batch made into tensors in the worker; the loop waiting; the loop's own work.

Every sample is compared with the manifest: key and size always, the content of those of the warm-up, or without one of
the first epoch, and of a share of the others, which goes round (`verify_share`).

Where there are several ranks, each has a share of the samples: batch by batch in turn for a map data set, as the client
deals them out for an iterable one. An epoch begins when all ranks are ready, and ends with the slowest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from bucketbench.components import build
from bucketbench.models.protocol import Model
from bucketbench.ranks import Ranks
from bucketbench.records import Operation, OperationKind, Phase
from bucketbench.scenarios.client_statement import told_by
from bucketbench.scenarios.dataset.delivery import DeliveryLedger
from bucketbench.scenarios.dataset.job import DatasetJob
from bucketbench.scenarios.dataset.loading import JobLoader, start_fork_server, start_method_of
from bucketbench.scenarios.dataset.local_copy import with_local_copy
from bucketbench.scenarios.dataset.metering import MAIN_PROCESS, MeteredBatch, Timing
from bucketbench.scenarios.dataset.rotation import Rotation
from bucketbench.scenarios.dataset.sample_checks import read_sample_check
from bucketbench.scenarios.dataset.schema import MAX_EPOCHS
from bucketbench.scenarios.kernel_cache import clear_kernel_cache
from bucketbench.scenarios.recording import Measurement, Recorder
from bucketbench.scenarios.server import ServerDifference
from bucketbench.statistics.warm_up import MOST_PASSES, is_warm

__all__ = ["measure"]

_WARMUP_EPOCH = -1
_LEAST_PASS_S = 1e-9  # a pass without time has no rate


def measure(fields: Mapping[str, Any], recorder: Recorder, ranks: Ranks) -> Measurement:
    """Warm up, measure and check one client, in this process and the workers it starts.

    Args:
        fields: those of a :class:`DatasetJob`.
        recorder: takes the raw records.
        ranks: which of the job's ranks this is.

    Returns:
        What was found, with the start method of the workers (``none`` without), the data set's style and the device in
        its details. The records are in the recorder, flushed.

    Raises:
        Exception: whatever the client or the model raises outside a fetch or a decoding.
    """
    job = DatasetJob.from_json(fields)
    content = read_sample_check(Path(job.samples_file), samples=job.samples, decoded=job.decoded)
    # Two of them: the workers' own is never prepared, so that it can be sent to them at any time.
    model, workers_model = build(job.model), build(job.model)
    client_started_s = time.monotonic()
    client = build(job.client)
    built_s = time.monotonic() - client_started_s
    target = with_local_copy(job, client)
    start_method = start_method_of(job.loader, client)
    if start_method == "forkserver":
        _start_fork_server(recorder)
    recorder.progress(stage="index", done=0, total=len(content), force=True)
    index_started_s = time.monotonic()
    inner = client.dataset(target)
    loader = JobLoader(
        inner,
        settings=job.loader,
        start_method=start_method,
        content=content,
        # Of this job alone, so that neither the client nor the next repeat has it.
        rotation=Rotation(len(content), share=job.verify_share, lot=int(ranks.greatest(int.from_bytes(os.urandom(6))))),
        model=workers_model,
        seed=job.seed,
        ranks=ranks,
        batch_sampler=getattr(client, "batch_sampler", None),
    )
    indexed_s = time.monotonic()
    automatic = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(automatic if job.device == "auto" else job.device)
    ledger = DeliveryLedger(len(content), at_most=job.max_samples, ranks=ranks)
    passes = _Passes(job=job, loader=loader, model=model, device=device, recorder=recorder, ledger=ledger, ranks=ranks)
    # The client's construction and its data set count together; making a local copy between the two does not.
    passes.record(OperationKind.INDEX, index_started_s - built_s, indexed_s)
    passes.warm_up()
    with ServerDifference(job.admin_url if ranks.is_first else None) as server:
        passes.measure_all()
    return Measurement(
        verification=passes.ledger.counts(),
        server=server.counts,
        details={
            "start_method": start_method,
            "style": "iterable" if loader.iterable else "map",
            "device": device.type,
            **told_by(client),
            **({} if job.local_copy is not None else {"data": content.described}),
            **({"sample": content.statement} if job.decoded or job.samples != "objects" else {}),
        },
    )


def _start_fork_server(recorder: Recorder) -> None:
    """Start it and record that, between two usage samples: its memory is the start method's and not the client's."""
    recorder.mark_edge()
    started_s = time.monotonic()
    start_fork_server()
    server = Operation(
        kind=OperationKind.FORK_SERVER,
        phase=Phase.WARMUP,
        epoch=_WARMUP_EPOCH,
        worker=MAIN_PROCESS,
        started_s=started_s,
        ended_s=time.monotonic(),
    )
    recorder.add([server])
    recorder.mark_edge()


class _Passes:
    """The loop over the data: once to warm up, then once an epoch."""

    def __init__(
        self,
        *,
        job: DatasetJob,
        loader: JobLoader,
        model: Model,
        device: torch.device,
        recorder: Recorder,
        ledger: DeliveryLedger,
        ranks: Ranks,
    ) -> None:
        self._job = job
        self._ranks = ranks
        self._loader = loader
        self._model = model
        self._device = device
        self._recorder = recorder
        self.ledger = ledger
        self._epoch = _WARMUP_EPOCH
        self._phase = Phase.WARMUP

    def record(self, kind: OperationKind, started_s: float, ended_s: float, samples: int = 0) -> None:
        """Keep an operation of this process, under the phase and epoch of the moment."""
        operation = Operation(
            kind=kind,
            phase=self._phase,
            epoch=self._epoch,
            worker=MAIN_PROCESS,
            started_s=started_s,
            ended_s=ended_s,
            samples=samples,
        )
        self._recorder.add([operation])

    def warm_up(self) -> None:
        """Start the workers, prepare the model and read some samples, until further passes are no faster.

        Nothing of it is measured. Only what the workers keep from pass to pass becomes warm: without persistent workers
        one pass is enough.
        """
        if self._job.warmup_samples == 0:
            self._model.prepare(self._device)
            return
        rates: list[float] = []
        persistent = self._job.loader.persistent_workers or self._job.loader.num_workers == 0
        while len(rates) < (MOST_PASSES if persistent else 1) and not is_warm(rates):
            started_s, samples = time.monotonic(), 0
            batches = self._loader.batches(epoch=_WARMUP_EPOCH, limit=self._job.warmup_samples, whole=True)
            if not rates:
                # The workers were started by the line above, before the model may have taken up threads or a GPU.
                self._model.prepare(self._device)
            for batch in self._loop(batches, stage="warm-up", total=self._job.warmup_samples):
                samples += len(batch.positions)
                self.ledger.add_unmeasured(
                    whole=len(batch.positions) - batch.by_size, mismatched=batch.mismatched, notes=batch.notes
                )
            ended_s = time.monotonic()
            self.record(OperationKind.EPOCH, started_s, ended_s, samples=samples)
            # All ranks have to end after the same pass.
            rates.append(self._job.warmup_samples / max(self._ranks.greatest(ended_s - started_s), _LEAST_PASS_S))
        self._recorder.flush()

    def measure_all(self) -> None:
        """Measure as many epochs as were asked for, or as it takes to measure for ``min_measured_s``; then none after
        one in which anything was wrong.
        """
        epochs = self._job.epochs
        measured_s = 0.0
        for epoch in range(MAX_EPOCHS if epochs is None else epochs):
            measured_s += self._ranks.greatest(self._measure(epoch))
            # What fails at once would take epochs without end to fill the time.
            failed = self._ranks.greatest(float(self.ledger.found_wrong)) > 0
            if epochs is None and (failed or measured_s >= self._job.min_measured_s):
                return

    def _measure(self, epoch: int) -> float:
        """Read every sample once, record it, and return how many seconds that took."""
        self._phase = Phase.MEASURE
        self._epoch = epoch
        stage = f"epoch {epoch + 1}" + ("" if self._job.epochs is None else f" of {self._job.epochs}")
        samples = 0
        whole = epoch == 0 and self._job.warmup_samples == 0
        if self._job.clear_kernel_cache:
            clear_kernel_cache()
        # Right outside the epoch on both sides: the sampling itself is no part of it, however long it takes a rank.
        self._recorder.mark_edge()
        self._ranks.wait_for_all()
        started_s = time.monotonic()
        batches = self._loader.batches(epoch=epoch, limit=self._job.max_samples, whole=whole)
        for batch in self._loop(batches, stage=stage, total=len(self.ledger), began_s=started_s):
            samples += len(batch.positions)
            self.ledger.add(
                batch.positions,
                mismatched=batch.mismatched,
                errors=batch.errors,
                undecodable=batch.undecodable,
                no_samples=batch.no_samples,
                by_size=batch.by_size,
                notes=batch.notes,
            )
        ended_s = time.monotonic()
        self._recorder.mark_edge()
        self.record(OperationKind.EPOCH, started_s, ended_s, samples=samples)
        self.ledger.close_epoch()
        self._recorder.flush()
        return ended_s - started_s

    def _loop(
        self, batches: Iterator[MeteredBatch], *, stage: str, total: int, began_s: float | None = None
    ) -> Iterator[MeteredBatch]:
        done = 0
        waiting_s = time.monotonic() if began_s is None else began_s
        for batch in batches:
            arrived_s = time.monotonic()
            self.record(OperationKind.WAIT, waiting_s, arrived_s)
            self._recorder.add(self._stamped(batch))
            if batch.payload is not None:
                self._model.step(batch.payload)
                self.record(OperationKind.STEP, arrived_s, time.monotonic(), samples=len(batch.positions))
            done += len(batch.positions)
            self._recorder.progress(stage=stage, done=done, total=total)
            yield batch
            waiting_s = time.monotonic()

    def _stamped(self, batch: MeteredBatch) -> Iterator[Operation]:
        for timing in batch.timings:
            fields = {name: getattr(timing, name) for name in Timing.__slots__}
            yield Operation(phase=self._phase, epoch=self._epoch, **fields)
