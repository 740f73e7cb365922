"""What a result says of the machine and the commit it was measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from bucketbench.provenance.cloud import describe_instance

__all__ = ["describe_host", "git_commit"]


def describe_host() -> dict[str, Any]:
    """The machine: system, kernel, CPU model, cores that this process may use, memory in MiB. No name, no address.

    In a cloud, what kind of instance it is: see :func:`bucketbench.provenance.cloud.instance_of`.
    """
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu_model": _cpu_model(),
        "cpu_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_mib": psutil.virtual_memory().total >> 20,
        **describe_instance(),
    }


@cache  # a run has one, and asks for it with each of its jobs
def git_commit() -> str | None:
    """The commit that this program's source is checked out at, ``-dirty`` added where tracked files were changed.

    None where the program was installed without its repository, or there is no git.
    """
    repository = Path(__file__).resolve().parents[3]
    if not (repository / ".git").exists():
        return None  # asking git would give the commit of whatever repository the installation lies in
    try:
        described = subprocess.run(
            ["git", "-C", str(repository), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip() or None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
