"""A benchmark of distributed checkpoints as environment variables, for ``conf/cluster/environment.yaml``.

The names and defaults are those of the multi-node checkpoint benchmark of gcs-torch-dataflux, so that what is deployed
with them runs unchanged. The file says which key of the configuration each value sets.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, Self
from urllib.parse import urlsplit

from bucketbench.configuration.schema import SCHEMES
from bucketbench.errors import ConfigurationError
from bucketbench.telemetry.gpu import Gpus

__all__ = ["MultinodeVariables", "multinode"]

_BELOW: Final = "checkpoints"
_TESTBEDS_BUCKET: Final = "bucketbench"
_BACKENDS: Final = {"cpu": "gloo", "gpu": "nccl"}


@dataclass(frozen=True, kw_only=True, slots=True)
class MultinodeVariables:
    """What the variables ask for, checked.

    Args:
        target: what the target is called: ``s3``, ``gs``, or ``local`` where checkpoints go to a directory.
        scheme: of the target.
        bucket: of the target.
        prefix: of the keys; None in a directory.
        path: the directory, which a mounted bucket may be; None where checkpoints go to a bucket.
        layers: of the model.
        action: what is done with checkpoints.
        steps: how many there are.
        steps_per_save: training steps after each save.
        nodes: machines.
        ranks: on all of them together.
        backend: of the ranks' process group.
        project: of Google Cloud; empty for that of the credentials.
    """

    target: str
    scheme: str
    bucket: str
    prefix: str | None
    path: str | None
    layers: int
    action: str
    steps: int
    steps_per_save: int
    nodes: int
    ranks: int
    backend: str
    project: str

    @property
    def testbed(self) -> bool:
        """Whether checkpoints go to a directory, so that the target is a testbed that nothing is saved to."""
        return self.path is not None

    @property
    def storage(self) -> str:
        """What checkpoints go to."""
        return "bucket" if self.path is None else "disk"

    @property
    def client(self) -> str:
        """Who is measured, unless a command says it."""
        return "torchbucket" if self.path is None else "disk"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """As the variables say; what is not set has the default of that benchmark.

        Raises:
            ConfigurationError: one is missing, or cannot be used; the message says what it may be.
        """
        place = environment.get("CKPT_DIR_PATH", "")
        restored, expected = environment.get("CKPT_RESTORE_PATH"), f"{place.rstrip('/')}/{_BELOW}"
        address = urlsplit(place)
        is_bucket = address.scheme in SCHEMES and bool(address.netloc)
        if not is_bucket and not PurePosixPath(place).is_absolute():
            raise ConfigurationError(
                f"CKPT_DIR_PATH={place} cannot be used: expected gs://BUCKET/DIRECTORY, s3://BUCKET/DIRECTORY, or the "
                "absolute path of a directory"
            )
        if restored is not None and restored.rstrip("/") != expected:
            raise ConfigurationError(
                f"CKPT_RESTORE_PATH={restored} cannot be used: checkpoints are loaded from where they were saved, "
                f"{expected}"
            )
        nodes = _whole(environment, "NUM_NODES", otherwise=1)
        action, steps = _action(environment)
        accelerator = environment.get("ACCELERATOR", "cpu")
        if accelerator not in _BACKENDS:
            raise ConfigurationError(f"ACCELERATOR={accelerator} cannot be used: expected {' or '.join(_BACKENDS)}")
        return cls(
            target=address.scheme if is_bucket else "local",
            scheme=address.scheme if is_bucket else SCHEMES[0],
            bucket=address.netloc if is_bucket else _TESTBEDS_BUCKET,
            prefix=f"{address.path.strip('/')}/{_BELOW}".lstrip("/") if is_bucket else None,
            path=None if is_bucket else expected,
            layers=_whole(environment, "NUM_LAYERS", otherwise=10),
            action=action,
            steps=steps,
            steps_per_save=_whole(environment, "STEPS_PER_SAVE", otherwise=0, least=0),
            nodes=nodes,
            ranks=nodes * _devices(environment, accelerator),
            backend=_BACKENDS[accelerator],
            project=environment.get("PROJECT") or environment.get("GOOGLE_CLOUD_PROJECT", ""),
        )


def multinode(name: str) -> Any:
    """The value ``${multinode:NAME}`` of a configuration: one of what the variables ask for.

    Raises:
        ConfigurationError: as of :meth:`MultinodeVariables.from_environment`.
    """
    return getattr(MultinodeVariables.from_environment(), name)


def _action(environment: Mapping[str, str]) -> tuple[str, int]:
    """What is done, and with how many checkpoints: all are saved before the first is loaded."""
    saves, loads = (_whole(environment, name, otherwise=3, least=0) for name in ("NUM_SAVE_CALLS", "NUM_LOAD_CALLS"))
    if _is_set(environment, "USE_ASYNC") and saves:
        return "async_save", saves
    if saves and loads and saves != loads:
        raise ConfigurationError(
            f"NUM_SAVE_CALLS={saves} and NUM_LOAD_CALLS={loads} cannot be used: each checkpoint is saved and loaded "
            "once; make them the same, or one of them 0"
        )
    if not saves and not loads:
        raise ConfigurationError("NUM_SAVE_CALLS=0 and NUM_LOAD_CALLS=0 cannot be used: nothing would be measured")
    if not saves:
        return "load", loads
    return ("saves_then_loads" if loads else "save"), saves


def _devices(environment: Mapping[str, str], accelerator: str) -> int:
    """Ranks of each node."""
    if environment.get("NUM_DEVICES", "auto") != "auto":
        return _whole(environment, "NUM_DEVICES", otherwise=1, also="auto, or ")
    if accelerator == "cpu":
        return 1
    gpus = Gpus()
    found = gpus.count
    gpus.close()
    return max(found, 1)  # with none the sweep is refused, by what it asks for


def _whole(environment: Mapping[str, str], name: str, *, otherwise: int, least: int = 1, also: str = "") -> int:
    text = environment.get(name)
    if text is None:
        return otherwise
    if not text.isascii() or not text.isdecimal() or not least <= int(text) <= 100_000:
        words = f"{also}a whole number from {least} to 100000"
        raise ConfigurationError(f"{name}={text} cannot be used: expected {words}")
    return int(text)


def _is_set(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(name, "0")
    if text not in ("0", "1"):
        raise ConfigurationError(f"{name}={text} cannot be used: expected 1 or 0")
    return text == "1"
