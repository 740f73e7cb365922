"""Which of the distribution's extras brings a package that is not installed.

A command that lacks one says so in one line, whichever it is: :func:`bucketbench.cli.main` asks here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["EXTRAS", "installation", "missing_extra"]

EXTRAS: Final[Mapping[str, str]] = {
    "PIL": "bench",
    "arro3.core": "peers",
    "boto3": "peers",
    "cryptography": "testbed",
    "gcsfs": "peers",
    "google.cloud.bigquery": "bigquery",
    "google.cloud.storage": "peers",
    "httptools": "testbed",
    "hydra": "bench",
    "jinja2": "report",
    "lightning": "lightning",
    "msgspec": "bench",
    "obstore": "peers",
    "omegaconf": "bench",
    "optuna": "tuning",
    "packaging": "bench",
    "psutil": "bench",
    "pyarrow": "parquet",
    "rich": "bench",
    "s3fs": "peers",
    "s3torchconnector": "peers",
    "transformers": "vit",
    "trustme": "testbed",
    "uvicorn": "testbed",
    "uvloop": "testbed",
    "vl_convert": "report",
    "webdataset": "peers",
    "xxhash": "bench",
    "yaml": "testbed",
}
"""The extra to install, by the import name of a package that a command or a client needs and a bare installation lacks.

The extra ``bench`` has what ``testbed`` has.
"""


def installation(extra: str) -> str:
    """The command that installs an extra, such as ``bench``."""
    return f"pip install 'torchbucket[{extra}]'"


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """One line on what to install for a module that was not found; None where that is no extra's.

    Args:
        error: as the import raised it.
    """
    parts = (error.name or "").split(".")
    for length in range(len(parts), 0, -1):
        extra = EXTRAS.get(".".join(parts[:length]))
        if extra is not None:
            return f"this needs the package {'.'.join(parts[:length])}, which is not installed: {installation(extra)}"
    return None
