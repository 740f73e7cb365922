"""Which samples a number of batches were, as a DataLoader takes them from its workers."""

from __future__ import annotations

from collections.abc import Sequence

from torchbucket.errors import ConfigError

__all__ = ["batches_of", "consumed_after"]


def batches_of(shares: Sequence[int], batch_size: int | None, *, drop_last: bool = False) -> int:
    """How many batches a loader yields of workers with so many samples each; a worker's last one may be short."""
    size = 1 if batch_size is None else batch_size
    if size < 1:
        raise ConfigError(f"batch_size must be at least 1; got {batch_size}")
    return sum(share // size if drop_last else -(-share // size) for share in shares)


def consumed_after(
    shares: Sequence[int],
    batches: int,
    batch_size: int | None,
    *,
    drop_last: bool = False,
    consumed: Sequence[int] | None = None,
    first: int = 0,
) -> list[int]:
    """How many samples of each worker's share a loader has yielded after some batches.

    A loader that keeps its order takes a batch from one worker after another and passes over those that have none left.

    Args:
        shares: how many samples each worker has in all.
        batches: how many batches were yielded.
        batch_size: samples in a batch, but for the last one of a worker; None where the loader yields samples.
        drop_last: a worker's last batch is left out where it is shorter.
        consumed: how many samples of each were yielded before; None means none.
        first: the worker whose turn is next.

    Raises:
        ConfigError: a number is out of range, or there are not so many batches.
    """
    size = 1 if batch_size is None else batch_size
    if size < 1 or batches < 0:
        raise ConfigError(
            f"batch_size must be at least 1 and batches at least 0; got batch_size={batch_size}, batches={batches}"
        )
    counts = [0] * len(shares) if consumed is None else list(consumed)
    least = size if drop_last else 1
    worker = first
    passed_over = 0
    left = batches
    while left:
        if shares[worker] - counts[worker] >= least:
            counts[worker] = min(counts[worker] + size, shares[worker])
            left -= 1
            passed_over = 0
        else:
            passed_over += 1
            if passed_over == len(shares):
                raise ConfigError(f"the epoch has {batches - left} batches of {size} left; got batches={batches}")
        worker = (worker + 1) % len(shares)
    return counts
