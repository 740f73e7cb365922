"""Forks, start methods, interrupts and exits, each in a process that is killed, and fails, where it would hang."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest
from scripted_s3 import Fault, ScriptedS3

from buckettestbed.launch import RunningTestbed, launch_testbed

LIMIT_S = 90
NONE: Mapping[str, str] = MappingProxyType({})
PROGRAM = Path(__file__).with_name("store_process_program.py")

pytestmark = pytest.mark.timeout(LIMIT_S + 30)


@dataclass(frozen=True, kw_only=True)
class Served:
    """One port of a testbed, and what a process needs to reach it."""

    testbed: RunningTestbed
    kind: str
    variables: dict[str, str]

    def run(self, scenario: str) -> str:
        scheme = self.kind.partition("-")[0]
        endpoint = self.testbed.s3_endpoint if scheme == "s3" else self.testbed.gcs_endpoint
        return run(scenario, endpoint, self.testbed.ca_certificate, scheme, self.variables)


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[str], Served]]:
    """Starts the testbed of a kind, each once."""
    with contextlib.ExitStack() as stack:
        known: dict[str, Served] = {}

        def one(kind: str) -> Served:
            if kind not in known:
                _, *options = kind.split("-")
                testbed = launch_testbed(buckets=["data"], tls="tls" in options, require_auth="auth" in options)
                running = stack.enter_context(testbed)
                variables = {}
                if running.credentials is not None:
                    account = running.credentials.service_accounts["default"]
                    variables["GOOGLE_APPLICATION_CREDENTIALS"] = str(account)
                known[kind] = Served(testbed=running, kind=kind, variables=variables)
            return known[kind]

        yield one


@pytest.fixture
def served(request: pytest.FixtureRequest, serve: Callable[[str], Served]) -> Served:
    return serve(request.param)


def run(
    scenario: str, endpoint: str, certificate: object = "", scheme: str = "s3", variables: Mapping[str, str] = NONE
) -> str:
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "AKIAPROCESS",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
        **variables,
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
        scheme,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment, check=False)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout


# Over TLS there is more that parent and child might share than without, and with tokens of Cloud Storage more yet.
WITH_THE_TRANSPORT = (
    "fork_from_a_callback",
    "parents_future_in_a_child",
    "forks_of_forks",
    "pool_of_brief_workers",
    "forks_while_stores_open",
    "any_future_ends_in_a_child",
)
WITH_THE_STORE = ("start_methods", "forks_while_busy")
CASES = [
    *(("s3-tls", scenario) for scenario in WITH_THE_TRANSPORT + WITH_THE_STORE),
    ("gs-tls-auth", "start_methods"),
    pytest.param("gs-tls-auth", "forks_while_busy", marks=pytest.mark.nightly),
    *(pytest.param("s3-http", name, marks=pytest.mark.nightly) for name in WITH_THE_TRANSPORT + WITH_THE_STORE),
]


@pytest.mark.parametrize(("served", "scenario"), CASES, indirect=["served"])
def test_processes(served: Served, scenario: str) -> None:
    assert served.run(scenario).endswith("done\n")


@pytest.mark.parametrize("served", ["s3-tls", "gs-tls-auth"], indirect=True)
def test_an_exit_aborts_what_nobody_closed(served: Served) -> None:
    served.run("exit_with_open_writer")
    assert served.testbed.open_uploads() == []


def test_an_exit_does_not_wait_for_a_silent_server(server: ScriptedS3) -> None:
    server.objects["silent"] = b"never sent"
    server.faults["get_object"].append(Fault(stall_after=-1))
    # A destructor neither waits for what never comes nor for a thread that never runs.
    assert run("exit_while_reading", server.endpoint) == "done\nStoreError\nRuntimeError\n"


def test_an_exit_waits_for_the_thread_of_a_store_that_is_gone(server: ScriptedS3) -> None:
    assert run("exit_as_a_store_is_freed", server.endpoint) == "done\nended\n"


def test_an_interrupted_write_leaves_nothing(server: ScriptedS3) -> None:
    server.faults["upload_part"].extend([Fault(stall_after=-1)] * 4)
    assert run("interrupt_a_write", server.endpoint) == "interrupted\ndone\n"
    assert server.uploads == {}
    assert server.objects == {}


def test_an_interrupted_read_ends(server: ScriptedS3) -> None:
    server.objects["silent"] = b"never sent"
    server.faults["get_object"].append(Fault(stall_after=-1))
    assert run("interrupt_a_read", server.endpoint) == "interrupted\ndone\n"
