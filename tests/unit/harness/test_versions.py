"""Which versions a result names."""

from __future__ import annotations

import platform
from importlib import metadata

import pycurl

from bucketbench.provenance.versions import versions_of


def test_what_was_asked_for_and_all_that_it_stands_on() -> None:
    versions = versions_of(["boto3", "google.cloud.storage", "PIL", "a_file_of_a_user"])
    assert versions["python"] == platform.python_version()
    assert versions["PIL"] == metadata.version("pillow")
    assert versions["a_file_of_a_user"] == "unknown"
    for name in ("boto3", "botocore", "s3transfer", "google-cloud-storage", "google-auth", "torchbucket", "pycurl"):
        assert versions[name] == metadata.version(name)
    assert versions["libcurl"] == pycurl.version_info()[1]
    assert "pytest" not in versions, "an extra is not needed"
