"""A local server that speaks S3 and GCS to any client, with a network model and faults on request.

It shares no code with the rest.
"""

from buckettestbed.auth.credentials import AccessKey, Credentials
from buckettestbed.faults.rules import FaultError
from buckettestbed.launch import (
    DirectoryInUseError,
    ForeignDirectoryError,
    RunningTestbed,
    TestbedError,
    launch_testbed,
)
from buckettestbed.serving.log import LoggedRequest

__all__ = [
    "AccessKey",
    "Credentials",
    "DirectoryInUseError",
    "FaultError",
    "ForeignDirectoryError",
    "LoggedRequest",
    "RunningTestbed",
    "TestbedError",
    "launch_testbed",
]
