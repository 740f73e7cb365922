"""What of the user's environment reaches the measured process."""

from __future__ import annotations

import os

import pytest

from bucketbench.job.environment import TESTBED_REGION, measured_environment

MINE = {
    "AWS_SECRET_ACCESS_KEY": "mine",
    "AWS_PROFILE": "mine",
    "AWS_ENDPOINT_URL": "https://elsewhere.example",
    "AWS_CA_BUNDLE": "/mine.pem",
    "GOOGLE_APPLICATION_CREDENTIALS": "/mine.json",
    "GOOGLE_CLOUD_PROJECT": "mine",
    "GCE_METADATA_HOST": "mine",
    "CLOUDSDK_CONFIG": "/mine",
    "STORAGE_EMULATOR_HOST": "http://elsewhere.example",
    "API_ENDPOINT_OVERRIDE": "http://elsewhere.example",
    "RCLONE_CONFIG": "/mine",
    "SSL_CERT_FILE": "/mine.pem",
    "REQUESTS_CA_BUNDLE": "/mine.pem",
    "https_proxy": "http://elsewhere.example",
    "HTTP_PROXY": "http://elsewhere.example",
}


@pytest.mark.parametrize("name", MINE)
def test_nothing_of_the_users_reaches_the_testbed(name: str) -> None:
    found = measured_environment(MINE, testbed=True)
    assert found.get(name) != MINE[name]


def test_the_testbed_gets_dummies_and_what_has_nothing_to_do_with_it() -> None:
    found = measured_environment({**MINE, "PATH": "/bin", "OMP_NUM_THREADS": "1"}, testbed=True)
    assert (found["PATH"], found["OMP_NUM_THREADS"]) == ("/bin", "1")
    assert found["AWS_ACCESS_KEY_ID"]
    assert found["AWS_REGION"] == TESTBED_REGION
    assert found["CLOUDSDK_CONFIG"] == os.devnull, "the home directory may hold application default credentials"


def test_a_real_service_is_reached_as_the_users_programs_reach_it() -> None:
    assert measured_environment(MINE, testbed=False) == MINE


def test_a_rank_of_this_process_is_not_that_of_a_measured_one() -> None:
    mine = {
        "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "a",
        "MASTER_PORT": "1",
        "GROUP_RANK": "3", "GROUP_WORLD_SIZE": "4", "ROLE_RANK": "3", "TORCHELASTIC_USE_AGENT_STORE": "True",
        "PET_NNODES": "4",
    }  # fmt: skip
    for testbed in (False, True):
        found = measured_environment({**mine, "GLOO_SOCKET_IFNAME": "eth1"}, testbed=testbed)
        assert not mine.keys() & found.keys()
        assert found["GLOO_SOCKET_IFNAME"] == "eth1"
