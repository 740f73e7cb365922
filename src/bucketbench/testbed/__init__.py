"""A local server that speaks S3 and GCS to any client, with a network model and faults on request.

It shares no code with the rest.
"""

from bucketbench.testbed.admin.log import LoggedRequest
from bucketbench.testbed.auth.credentials import AccessKey, Credentials
from bucketbench.testbed.faults.rules import FaultError
from bucketbench.testbed.launch import RunningTestbed, TestbedError, launch_testbed

__all__ = [
    "AccessKey",
    "Credentials",
    "FaultError",
    "LoggedRequest",
    "RunningTestbed",
    "TestbedError",
    "launch_testbed",
]
