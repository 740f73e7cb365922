"""Layers around a data set or sampler that share out its samples themselves, such as accelerate's prepared loaders.

A data set that dealt out a share to such a layer would have a share of the share reach the model, and the rest be lost
without a word. No such layer asks or tells the data set, so it is recognised by the functions that run when an
iteration begins: a layer's own are among those that have called the data set, also in a forked worker.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Final

from torchbucket.datasets.epochs.sharding import Rank
from torchbucket.errors import ConfigError

__all__ = ["rank_under_outer_sharding"]

# Sources: accelerate 1.15, `accelerate/data_loader.py`; transformers 5.24, `trainer_pt_utils.py`; torch 2.13,
# `torch/utils/data/datapipes/iter/sharding.py`.
_DISPATCHER: Final = ("accelerate.data_loader", "DataLoaderDispatcher")
_SHARDING_FILTER: Final = ("torch.utils.data.datapipes.iter.sharding", "ShardingFilterIterDataPipe")
_SHARDING_OVER_RANKS: Final = {
    _DISPATCHER,  # rank 0 reads, and sends the others their slices
    ("accelerate.data_loader", "IterableDatasetShard"),  # every rank reads all, and takes its slices
    ("accelerate.data_loader", "BatchSamplerShard"),
    ("transformers.trainer_pt_utils", "IterableDatasetShard"),
}
_LAYERS: Final = {*_SHARDING_OVER_RANKS, _SHARDING_FILTER}


def rank_under_outer_sharding(given: Rank | None, *, stream: object = None, equal_shares: bool = False) -> Rank | None:
    """The rank to read as inside a layer that shares out to the ranks: the only one; None where there is no such layer.

    Args:
        given: the rank that the user named.
        stream: the iterable data set that asks, whose batches a loader's workers make; None for a sampler.
        equal_shares: its workers' shares differ by one sample at most.

    Raises:
        ConfigError: samples would be lost, or come twice, whatever share is read.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        layer = frame.f_globals.get("__name__"), frame.f_code.co_qualname.partition(".")[0]
        if layer in _LAYERS:
            # Locals are asked for of such a frame alone: it then keeps what they refer to for as long as it runs.
            outer = frame.f_locals.get("self")
            if layer != _SHARDING_FILTER:
                _check_given(layer, given)
                # One that is being made is not to be asked yet; it names the epoch before it reads.
                if layer == _DISPATCHER and stream is not None and frame.f_code.co_name != "__init__":
                    _check_workers(outer, stream, equal_shares)
                return Rank(rank=0, world_size=1)
            _check_filter(outer)
        frame = frame.f_back
    return None


def _check_filter(outer: Any) -> None:
    if getattr(outer, "num_of_instances", 1) > 1:
        raise ConfigError(
            "sharding_filter shares out what the data set has shared out already, to ranks and workers, and most "
            "samples would be lost: leave sharding_filter out. (Or construct the data set with sharding=False: every "
            "reader then reads everything, for the filter to drop all but its own)"
        )


def _check_given(layer: tuple[Any, str], given: Rank | None) -> None:
    if given is not None and given.world_size > 1:
        package = layer[0].partition(".")[0]
        raise ConfigError(
            f"{package}'s {layer[1]} shares out the samples to the ranks, and the data set was given "
            f"rank={given.rank}, world_size={given.world_size}, so that a share of a share would be left: leave rank "
            "and world_size out, or do not have the loader prepared"
        )


def _check_workers(dispatcher: Any, stream: object, equal_shares: bool) -> None:
    """Raise where a short batch can come before the last batches, which are dispatched together and filled up.

    The dispatcher cuts so many batches as there are ranks, or one (``split_batches``), into equal slices, and drops
    what is beyond them.
    """
    loader = getattr(dispatcher, "base_dataloader", dispatcher)
    workers, ranks = loader.num_workers, dispatcher.state.num_processes
    if workers < 2 or ranks < 2 or dispatcher._drop_last:
        return
    whole_rounds = not dispatcher.split_batches and ranks % workers == 0
    if whole_rounds and equal_shares and loader.dataset is stream:
        return
    raise ConfigError(
        f"accelerate's DataLoaderDispatcher drops samples of a batch that is short in the middle of an epoch, and each "
        f"of the loader's {workers} workers ends with one that may be: set num_workers to 0 or 1, drop_last=True "
        "(leaves short batches out), or dispatch_batches=False (every rank then reads everything; Trainer: "
        "accelerator_config={'dispatch_batches': False}). Or do not have the loader prepared: the data set shares "
        "itself out to ranks and workers"
    )
