"""The suites that others wrote for the providers, run against the testbed where a copy of one is at hand.

`S3_TESTS` names a folder with ceph's s3-tests, `PYTHON_STORAGE_TESTS` one with Google's python-storage;
`S3_TESTS_PYTHON` and `PYTHON_STORAGE_TESTS_PYTHON` an interpreter that has what they need, this one where nothing is
said. docs/testbed.md lists what fails and why: a failure that it does not list fails here, and so does one that it
lists and that is none.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest

from buckettestbed import launch_testbed
from buckettestbed.auth.credentials import OWNER, READ_ONLY

pytestmark = pytest.mark.nightly
PAGE = Path(__file__).parents[3] / "docs" / "testbed.md"
PLUGINS = Path(__file__).parent / "foreign"
LIMIT_S = 800

UNCLAIMED_MARKS = [
    "abac_test",
    "appendobject",
    "auth_aws2",
    "bucket_encryption",
    "bucket_logging",
    "bucket_policy",
    "cloud_restore",
    "cloud_transition",
    "delete_marker",
    "encryption",
    "fails_on_aws",
    "fails_on_s3",
    "iam_account",
    "iam_tenant",
    "iam_user",
    "lifecycle",
    "object_lock",
    "object_ownership",
    "s3website",
    "sse_s3",
    "tagging",
    "target_by_bucket",
    "versioning",
]
UNCLAIMED_NAMES = [
    "access_bucket",
    "acl",
    "anon",
    "block",
    "bucket_gone",
    "cors",
    "lock",
    "nonowner",
    "not_owned",
    "object_gone",
    "policy",
    "post_object",
    "raw_authenticated",
    "raw_get",
    "tenant",
    "torrent",
    "version",
]
"""What of s3-tests is about what the testbed does not serve: by its marks, and by words in names of unmarked tests."""

CONFIGURATION = """
[DEFAULT]
host = {host}
port = {port}
is_secure = False
[fixtures]
bucket prefix = tests-{{random}}-
iam name prefix = s3-tests-
iam path prefix = /s3-tests/
[s3 main]
display_name = testbed
user_id = testbed
email = main@example.com
api_name = us-east-1
access_key = {owner.access_key_id}
secret_key = {owner.secret_access_key}
[s3 alt]
display_name = alt
user_id = alt
email = alt@example.com
access_key = {reader.access_key_id}
secret_key = {reader.secret_access_key}
[s3 tenant]
display_name = tenant
user_id = tenant
email = tenant@example.com
tenant = tenant
access_key = {reader.access_key_id}
secret_key = {reader.secret_access_key}
[iam]
display_name = iam
user_id = iam
email = iam@example.com
access_key = {reader.access_key_id}
secret_key = {reader.secret_access_key}
[iam root]
user_id = root
email = root@example.com
access_key = {reader.access_key_id}
secret_key = {reader.secret_access_key}
[iam alt root]
user_id = altroot
email = altroot@example.com
access_key = {reader.access_key_id}
secret_key = {reader.secret_access_key}
"""


def suite(name: str) -> tuple[Path, str]:
    """The folder of a suite and the interpreter for it; skips where there is no copy."""
    folder = os.environ.get(name)
    if not folder:
        pytest.skip(f"{name} names no copy of the suite")
    return Path(folder), os.environ.get(f"{name}_PYTHON", sys.executable)


def failures(python: str, arguments: Sequence[str], *, report: Path, folder: Path, **environment: str) -> set[str]:
    """Runs tests and returns the names of those that do not pass; those that are skipped count as none."""
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *arguments]
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode in (0, 1), ended.stdout[-4000:] + ended.stderr[-4000:]
    cases = list(ElementTree.parse(report).iter("testcase"))
    assert len(cases) > 50, "hardly any test of the suite was found"
    return {case.attrib["name"] for case in cases if case.find("failure") is not None or case.find("error") is not None}


def known(suite_name: str) -> dict[str, str]:
    """The tests that the page says do not pass, each with the reason."""
    place = re.compile(rf"<!-- {suite_name}: what fails -->\n(.*?)<!-- end of what fails -->", re.DOTALL)
    found = place.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None, f"the page has no table of {suite_name}"
    rows = [line.strip("|").split("|") for line in found[1].strip().splitlines()[2:]]
    return {name: why.strip() for names, why in rows for name in re.findall(r"`(\w+(?:\[[^`]*\])?)`", names)}


def differences(failed: set[str], expected: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Failures that the page does not list, and tests of its list that pass."""
    return sorted(failed - expected.keys()), sorted(expected.keys() - failed)


def test_cephs_suite(tmp_path: Path) -> None:
    folder, python = suite("S3_TESTS")
    with launch_testbed(require_auth=True) as testbed:
        assert testbed.credentials is not None
        address, keys = urlsplit(testbed.s3_endpoint), testbed.credentials.access_keys
        configuration = tmp_path / "s3tests.conf"
        configuration.write_text(
            CONFIGURATION.format(host="localhost", port=address.port, owner=keys[OWNER], reader=keys[READ_ONLY])
        )
        failed = failures(
            python,
            [
                "s3tests/functional/test_s3.py",
                "s3tests/functional/test_headers.py",
                "-m",
                f"not ({' or '.join(UNCLAIMED_MARKS)})",
                "-k",
                f"not ({' or '.join(UNCLAIMED_NAMES)})",
                "-p",
                "ceph_without_versions",
            ],
            report=tmp_path / "report.xml",
            folder=folder,
            S3TEST_CONF=str(configuration),
            PYTHONPATH=f"{folder}{os.pathsep}{PLUGINS}",
        )
    assert differences(failed, known("s3-tests")) == ([], [])


def test_googles_suite(tmp_path: Path) -> None:
    folder, python = suite("PYTHON_STORAGE_TESTS")
    with launch_testbed(require_auth=True) as testbed:
        assert testbed.credentials is not None
        failed = failures(
            python,
            [
                "tests/system/test_blob.py",
                "tests/system/test_bucket.py",
                "tests/system/test_client.py",
                "tests/system/test_fileio.py",
                "tests/system/test_transfer_manager.py",
                "tests/system/test__signing.py",
                "-k",
                "not access_token",  # which asks a service of Google's to sign, and waits for it
                "-p",
                "google_without_versions",
            ],
            report=tmp_path / "report.xml",
            folder=folder,
            API_ENDPOINT_OVERRIDE=testbed.gcs_endpoint,
            GOOGLE_APPLICATION_CREDENTIALS=str(testbed.credentials.service_accounts[OWNER]),
            GOOGLE_CLOUD_PROJECT="testbed",
            PYTHONPATH=str(PLUGINS),
        )
    assert differences(failed, known("python-storage")) == ([], [])
