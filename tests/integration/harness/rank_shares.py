"""What two ranks leave that have read a data set twice, each a share of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

__all__ = ["check_that_ranks_shared"]


def check_that_ranks_shared(job: Path, verification: dict[str, Any], *, samples: int) -> None:
    """Each rank has read a share of them, and all of them were compared.

    Args:
        job: the job's directory.
        verification: what it tells of that.
        samples: of the data set.
    """
    assert verification.pop("checked_in_warmup") > 0
    assert verification == {
        "checked": 2 * samples, "mismatched": 0, "missing": 0, "duplicated": 0, "errors": 0, "notes": [],
        "checked_by_size": 2 * (samples - math.ceil(samples / 8)),  # both ranks go by one lot
    }  # fmt: skip
    shares = []
    for rank in (0, 1):
        lines = (job / "ranks" / str(rank) / "operations.jsonl").read_text().splitlines()
        operations = [operation for operation in map(json.loads, lines) if operation["phase"] == "measure"]
        assert {operation["rank"] for operation in operations} == {rank}
        shares.append(sum(one["samples"] for one in operations if one["kind"] in ("fetch", "next")))
    assert sum(shares) == 2 * samples
    assert min(shares) >= samples // 2
