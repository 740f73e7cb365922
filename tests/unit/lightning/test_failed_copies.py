"""A copy that rank 0 could not make, told to the ranks that wait for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from torchbucket.errors import CheckpointError, NotFoundError
from torchbucket.lightning import BucketCheckpointIO, BucketModelCheckpoint

ABSENT, LAST = "memory://failed-copies/step=2.ckpt", "memory://failed-copies/last.ckpt"


def test_a_copy_that_rank_0_could_not_make_fails_on_every_rank() -> None:
    callback = BucketModelCheckpoint(dirpath="memory://failed-copies", save_last="link")
    sent: list[Any] = []

    def broadcast(told: Any) -> Any:
        sent.append(told)
        return sent[0]

    strategy = SimpleNamespace(checkpoint_io=BucketCheckpointIO(), broadcast=broadcast)
    with pytest.raises(NotFoundError):
        callback._link_checkpoint(SimpleNamespace(is_global_zero=True, strategy=strategy), ABSENT, LAST)
    with pytest.raises(CheckpointError, match=r"last\.ckpt: rank 0 could not copy .* no rank goes on: NotFoundError: "):
        callback._link_checkpoint(SimpleNamespace(is_global_zero=False, strategy=strategy), ABSENT, LAST)
    assert sent[1] is None
