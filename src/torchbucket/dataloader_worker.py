"""Whether this process is a DataLoader's worker, for what must not import torch to know."""

from __future__ import annotations

import sys

__all__ = ["in_dataloader_worker"]


def in_dataloader_worker() -> bool:
    """Whether a DataLoader started this process; a process that has not imported torch was not started by one."""
    loader = sys.modules.get("torch.utils.data")
    return loader is not None and getattr(loader, "get_worker_info", lambda: None)() is not None
