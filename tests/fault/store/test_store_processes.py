"""Forks, start methods, interrupts and exits, each in a process that is killed, and fails, where it would hang."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_s3 import Fault, ScriptedS3

from bucketbench.testbed.launch import RunningTestbed, launch_testbed

LIMIT_S = 90
PROGRAM = Path(__file__).with_name("store_process_program.py")

pytestmark = pytest.mark.timeout(LIMIT_S + 30)


@pytest.fixture(scope="module", params=["http", "tls"])
def testbed(request: pytest.FixtureRequest) -> Iterator[RunningTestbed]:
    with launch_testbed(buckets=["data"], tls=request.param == "tls") as running:
        yield running


def run(scenario: str, endpoint: str, certificate: object = "") -> str:
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "AKIAPROCESS",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-W",
        "error::RuntimeWarning",
        str(PROGRAM),
        scenario,
        endpoint,
        str(certificate or ""),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment, check=False)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.mark.parametrize(
    "scenario", ["forks_while_busy", "fork_from_a_callback", "parents_future_in_a_child", "start_methods"]
)
def test_processes(testbed: RunningTestbed, scenario: str) -> None:
    assert run(scenario, testbed.s3_endpoint, testbed.ca_certificate).endswith("done\n")


def test_an_exit_aborts_what_nobody_closed(testbed: RunningTestbed) -> None:
    run("exit_with_open_writer", testbed.s3_endpoint, testbed.ca_certificate)
    assert testbed.open_uploads() == []


def test_an_exit_does_not_wait_for_a_silent_server(server: ScriptedS3) -> None:
    server.objects["silent"] = b"never sent"
    server.faults["get_object"].append(Fault(stall_after=-1))
    assert run("exit_while_reading", server.endpoint) == "done\n"


def test_an_interrupted_write_leaves_nothing(server: ScriptedS3) -> None:
    server.faults["upload_part"].extend([Fault(stall_after=-1)] * 4)
    assert run("interrupt_a_write", server.endpoint) == "interrupted\ndone\n"
    assert server.uploads == {}
    assert server.objects == {}


def test_an_interrupted_read_ends(server: ScriptedS3) -> None:
    server.objects["silent"] = b"never sent"
    server.faults["get_object"].append(Fault(stall_after=-1))
    assert run("interrupt_a_read", server.endpoint) == "interrupted\ndone\n"
