"""What must be set before gcsfs is imported."""

from __future__ import annotations

import os

# gcsfs reads it when imported. Its probe for hierarchical buckets speaks gRPC, and waits 60 s for an emulator's answer.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
