"""Clients of Cloud Storage find the Application Default Credentials by themselves; no data set's pickle has one."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator

import pytest
from served_clients import BUCKET, Case, build_client, cases

from bucketbench.clients.mounting import missing_tools
from bucketbench.clients.protocol import Target
from buckettestbed.auth.credentials import OWNER
from buckettestbed.launch import RunningTestbed, launch_testbed

CONTENTS = {"sets/adc/a": b"first", "sets/adc/b": b"second"}
ON_GCS = [case for case in cases() if case.scheme == "gs" and not case.is_local]


@pytest.fixture(scope="module")
def guarded() -> Iterator[RunningTestbed]:
    from google.cloud import storage

    with launch_testbed(buckets=[BUCKET], require_auth=True) as testbed, pytest.MonkeyPatch.context() as patch:
        assert testbed.credentials is not None
        account = testbed.credentials.service_accounts[OWNER]
        patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        client = storage.Client(client_options={"api_endpoint": testbed.gcs_endpoint})
        for key, content in CONTENTS.items():
            client.bucket(BUCKET).blob(key).upload_from_string(content)
        yield testbed


@pytest.mark.parametrize("case", ON_GCS, ids=str)
def test_default_credentials_are_found_and_stay_out_of_pickles(case: Case, guarded: RunningTestbed) -> None:
    if case.name == "mount" and missing_tools() is not None:
        pytest.skip(f"this machine lacks {missing_tools()}")
    target = Target(scheme="gs", bucket=BUCKET, prefix="sets/adc/", endpoint=guarded.gcs_endpoint)
    dataset = build_client(case.name).dataset(target)
    pairs = [dataset[i] for i in range(len(dataset))] if hasattr(dataset, "__len__") else list(dataset)
    assert {f"sets/adc/{key}": bytes(content) for key, content in pairs} == CONTENTS
    assert guarded.credentials is not None
    secret = json.loads(guarded.credentials.service_accounts[OWNER].read_text())["private_key"]
    pickled = pickle.dumps(dataset)
    assert secret.encode() not in pickled
    assert b"Bearer" not in pickled
